package scheduler

import (
	"runtime"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxIdle is how many copies of a schema stay in memory: one for an owner and one for the API.
const maxIdle = 2

// boundedSchema is a compiled schema with its budget.
type boundedSchema struct {
	*jsonschema.Schema
	budget *visits
}

// inputSchema validates several inputs at the same time. Each validation has its own compiled schema.
type inputSchema struct {
	source any
	// plain has no guards; nil if the schema needs them. It never changes, so all validations share it.
	plain *jsonschema.Schema
	// limit is the maximum number of copies in use. More would only take memory, since a validation only computes.
	limit int
	// mu guards the fields below. No copy is compiled under it.
	mu    sync.Mutex
	freed sync.Cond
	idle  []*boundedSchema
	inUse int
}

func newInputSchema(source any) (*inputSchema, error) {
	budget := &visits{left: inputBudget}
	root, objects, err := compileUnguarded(source, budget)
	if err != nil {
		return nil, err
	}
	s := &inputSchema{source: source, limit: runtime.GOMAXPROCS(0)}
	s.freed.L = &s.mu
	if isPlain(root) {
		s.plain = root // a copy with guards is compiled for the first input that needs it
		return s, nil
	}
	budget.guarded(append(objects, root))
	s.idle = []*boundedSchema{{root, budget}}
	return s, nil
}

// validate returns errors as jsonschema.Schema does, at most maxInputFaults. size is the size of the input's text. It panics with tooLong
// or tooDeep when the budget is spent.
func (s *inputSchema) validate(v any, size int) error {
	// The guards report the faults, because they limit their number.
	if s.plain != nil && size <= plainInput && s.plain.Validate(v) == nil {
		return nil
	}
	b, err := s.take()
	defer func() { s.give(b) }()
	if err != nil {
		return err
	}
	*b.budget = visits{left: inputBudget + visitsPerByte*size}
	return b.Validate(v)
}

// take waits for another validation to end if as many as the limit are under way; each ends within its budget. give must follow.
func (s *inputSchema) take() (*boundedSchema, error) {
	if b := s.reuse(); b != nil {
		return b, nil
	}
	return compileSchema(s.source)
}

// reuse returns nil if no copy is idle and one more may be made.
func (s *inputSchema) reuse() *boundedSchema {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.inUse >= s.limit {
		s.freed.Wait()
	}
	s.inUse++
	n := len(s.idle)
	if n == 0 {
		return nil
	}
	b := s.idle[n-1]
	s.idle = s.idle[:n-1]
	return b
}

// give returns a copy, nil if it could not be made.
func (s *inputSchema) give(b *boundedSchema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse--
	if b != nil && len(s.idle) < maxIdle {
		s.idle = append(s.idle, b)
	}
	s.freed.Signal()
}
