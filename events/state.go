package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PartitionState is the entity that stands for the partition itself.
type PartitionState struct {
	Partition int32 `json:"partition"`
	Epoch     Epoch `json:"epoch,omitzero"`
	// Owner is the node that made the current claim.
	Owner string  `json:"owner,omitempty"`
	Since Instant `json:"since,omitzero"`
	// NextSequence is the only sequence that the fold accepts next.
	NextSequence uint64 `json:"next_sequence,omitzero"`
	// Broken says that a gap voided the rest of the epoch.
	Broken bool `json:"broken,omitzero"`
	// Time is the time of the latest fact; the next one's is not earlier.
	Time Instant `json:"time,omitzero"`
	// Inputs holds the resume point of each input topic: the only source of it (DESIGN 4).
	Inputs map[Input]Passed `json:"inputs,omitempty"`
	// Settled is up to where all effects are known to be acknowledged.
	Settled  Position `json:"settled,omitzero"`
	Settings Settings `json:"settings,omitzero"`
	// Reader is the least format version that may read on.
	Reader int `json:"reader,omitzero"`
	// SinceHash counts the accepted facts since the last StateHash.
	SinceHash int `json:"since_hash,omitzero"`
}

// HeldRequest is the entity of a request whose task is not there yet. Its ID is that of the task, a NUL, and that of
// the request.
type HeldRequest struct {
	Request   Request `json:"request"`
	ExpiresAt Instant `json:"expires_at"`
	Cause     Cause   `json:"cause"`
	CauseHash string  `json:"cause_hash,omitempty"`
}

// Definition is the entity of an adopted version of a workflow. Its ID is its hash.
type Definition struct {
	Workflow string          `json:"workflow"`
	Hash     string          `json:"hash"`
	Version  int             `json:"version"`
	Body     json.RawMessage `json:"body"`
}

// Run is a run of accepted facts at contiguous offsets, by which a later owner finds the facts whose effects are
// not settled without judging the log again. It is not part of the state hash, since offsets differ between copies
// of a log.
type Run struct {
	Epoch    Epoch  `json:"epoch"`
	Sequence uint64 `json:"sequence"`
	Offset   int64  `json:"offset"`
	Count    int64  `json:"count"`
}

// Loader finds a task that is not in memory: the encoding of its entity, nil if there is none, and its Keys as
// AppendKeys wrote them.
type Loader func(id string) (encoding, keys []byte, err error)

// State is the fold of one partition of events. It is not safe for concurrent use: one goroutine owns it.
//
// Invariant (INV2): two states that folded the same records hash alike, whatever was in memory in between.
type State struct {
	Partition PartitionState
	// Next is the offset of the record to be folded next.
	Next int64
	// Void counts the records that the fold skipped since the state was opened.
	Void int64

	// tasks holds nil for a task that was swept and may still stand in the store.
	tasks       map[string]*Task
	swept       map[string]*Keys
	held        map[string]map[string]*HeldRequest // by task, then by request
	definitions map[string]*Definition
	load        Loader

	runs  []Run
	sum   Hash
	parts map[part]Hash // hashes of held requests, definitions and the partition, as counted in sum

	// dirtyTasks are the IDs of the tasks in memory that changed since the last Flush; one that was swept and accepted
	// again stands there twice. dirtyOthers were swept, or touched while they were not in memory.
	dirtyTasks  []string
	dirtyOthers map[string]bool
	dirtyParts  map[part]bool
	history     []History
	// lastHistory is how many there were at the last Flush: as many may come again.
	lastHistory int

	// refused is the first error of Apply, behind which a fact may be half folded.
	refused error

	lax Lax
}

// Lax leaves out rules of the fold, so that the simulator can show what each of them prevents. Nothing else sets it.
type Lax struct {
	// AnyClaim accepts a claim whatever predecessor it names.
	AnyClaim bool
	// AnySequence accepts a fact of the current epoch whatever its sequence.
	AnySequence bool
}

// SetLax is for the simulator: see Lax.
func (s *State) SetLax(l Lax) { s.lax = l }

type part struct {
	kind Kind
	id   string
}

// NewState returns the state before the first record. load may be nil, when everything is in memory.
func NewState(partition int32, load Loader) *State {
	s := &State{
		Partition:   PartitionState{Partition: partition},
		tasks:       map[string]*Task{},
		swept:       map[string]*Keys{},
		held:        map[string]map[string]*HeldRequest{},
		definitions: map[string]*Definition{},
		load:        load,
		parts:       map[part]Hash{},
		dirtyOthers: map[string]bool{},
		dirtyParts:  map[part]bool{},
	}
	return s
}

// Task returns the task of that ID, nil if it is not known. The caller must not change it.
func (s *State) Task(id string) (*Task, error) {
	if t, ok := s.tasks[id]; ok {
		return t, nil
	}
	if s.load == nil {
		return nil, nil
	}
	b, keys, err := s.load(id)
	if err != nil {
		return nil, fmt.Errorf("load task %q: %w", id, err)
	}
	if b == nil {
		return nil, nil
	}
	t, err := DecodeTask(b)
	if err != nil {
		return nil, err
	}
	if t.keys, err = DecodeKeys(keys); err != nil {
		return nil, fmt.Errorf("task %q: %w", id, err)
	}
	s.tasks[id] = t
	return t, nil
}

// Touch has the task's row written with the next Flush although no fact changed it: its place in the queue or its
// next timer did. The task may have been evicted meanwhile.
func (s *State) Touch(id string) {
	if t := s.tasks[id]; t != nil {
		s.touchTask(id, t)
	} else {
		s.dirtyOthers[id] = true
	}
}

// Definition returns an adopted definition by its hash, nil if the partition has not adopted it.
func (s *State) Definition(hash string) *Definition { return s.definitions[hash] }

// HeldFor returns the requests held for a task, in the order of their IDs.
func (s *State) HeldFor(task string) []*HeldRequest {
	if len(s.held[task]) == 0 {
		return nil
	}
	list := slices.Collect(maps.Values(s.held[task]))
	slices.SortFunc(list, func(a, b *HeldRequest) int { return strings.Compare(a.Request.ID, b.Request.ID) })
	return list
}

// Held returns all held requests in no order.
func (s *State) Held() []*HeldRequest {
	list := make([]*HeldRequest, 0, len(s.held))
	for _, of := range s.held {
		list = slices.AppendSeq(list, maps.Values(of))
	}
	return list
}

// InMemory returns the number of tasks in memory.
func (s *State) InMemory() int { return len(s.tasks) }

// Evict forgets a task that the loader can give again. The caller guarantees that its latest encoding is durable
// there. A task changed since the last Flush is kept.
func (s *State) Evict(id string) {
	if t := s.tasks[id]; (t == nil || !t.dirty) && !s.dirtyOthers[id] {
		delete(s.tasks, id)
	}
}

// Loaded calls yield for each task in memory until it returns false.
func (s *State) Loaded(yield func(*Task) bool) {
	for _, t := range s.tasks {
		if t != nil && !yield(t) {
			return
		}
	}
}

// Changed returns about how many tasks changed since the last Flush: none if none did.
func (s *State) Changed() int { return len(s.dirtyTasks) + len(s.dirtyOthers) }

// Sum returns the state hash as of the last Flush.
func (s *State) Sum() Hash { return s.sum }

// Runs returns the runs of accepted facts behind Settled. The slice is good until the next Apply.
func (s *State) Runs() []Run { return s.runs }

// Offset returns the offset of an accepted fact at or behind the settled position, or -1.
func (s *State) Offset(p Position) int64 {
	for _, r := range s.runs {
		if r.Epoch == p.Epoch && p.Sequence >= r.Sequence && p.Sequence < r.Sequence+uint64(r.Count) {
			return r.Offset + int64(p.Sequence-r.Sequence)
		}
	}
	return -1
}

// Accepted says whether the record at that offset was accepted as a fact. It knows only of facts that are not
// settled.
func (s *State) Accepted(offset int64) bool {
	for _, r := range s.runs {
		if offset >= r.Offset && offset < r.Offset+r.Count {
			return true
		}
	}
	return false
}

func heldID(task, request string) string { return task + "\x00" + request }

func (h *HeldRequest) id() string { return heldID(h.Request.Task, h.Request.ID) }

func (s *State) putHeld(h *HeldRequest) {
	of := s.held[h.Request.Task]
	if of == nil {
		of = map[string]*HeldRequest{}
		s.held[h.Request.Task] = of
	}
	of[h.Request.ID] = h
}

func (s *State) forgetHeld(task, request string) {
	delete(s.held[task], request)
	if len(s.held[task]) == 0 {
		delete(s.held, task)
	}
}

func (s *State) touchTask(id string, t *Task) {
	t.hashed = false
	if !t.dirty {
		t.dirty = true
		s.dirtyTasks = append(s.dirtyTasks, id)
	}
}

func (s *State) touchPart(k Kind, id string) { s.dirtyParts[part{k, id}] = true }

// changedTasks returns the IDs of the tasks that changed since the last Flush, in order.
func (s *State) changedTasks() []string {
	ids := append(make([]string, 0, len(s.dirtyTasks)+len(s.dirtyOthers)), s.dirtyTasks...)
	for id := range s.dirtyOthers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// changedParts returns the other entities that changed, in order.
func (s *State) changedParts() []part {
	list := make([]part, 0, len(s.dirtyParts))
	for p := range s.dirtyParts {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b part) int {
		return cmp.Or(strings.Compare(string(a.kind), string(b.kind)), strings.Compare(a.id, b.id))
	})
	return list
}

// accept notes an accepted fact at the next offset for Offset and Accepted.
func (s *State) accept(f *Fact, offset int64) {
	if n := len(s.runs); n > 0 {
		last := &s.runs[n-1]
		if last.Epoch == f.Epoch && last.Sequence+uint64(last.Count) == f.Sequence && last.Offset+last.Count == offset {
			last.Count++
			return
		}
	}
	s.runs = append(s.runs, Run{Epoch: s.Partition.Epoch, Sequence: f.Sequence, Offset: offset, Count: 1})
}

// settle moves Settled forward and drops the runs before it; the fact at Settled itself stays, as the place to read
// on from.
func (s *State) settle(p Position) {
	if p.IsZero() || !s.Partition.Settled.Before(p) {
		return
	}
	s.Partition.Settled = p
	keep := s.runs[:0]
	for _, r := range s.runs {
		end := Position{r.Epoch, r.Sequence + uint64(r.Count) - 1}
		if end.Before(p) {
			continue
		}
		if r.Epoch == p.Epoch && r.Sequence < p.Sequence {
			drop := p.Sequence - r.Sequence
			r.Sequence, r.Offset, r.Count = p.Sequence, r.Offset+int64(drop), r.Count-int64(drop)
		}
		keep = append(keep, r)
	}
	s.runs = keep
}
