package scheduler

import (
	"maps"
	"sync"
	"sync/atomic"
	"weak"
)

// programBytes bounds the contents of the definitions in one generation of programs. A program takes about four times as much
// memory.
const programBytes = 8 << 20

// programs are the compiled definitions that a scheduler has used lately, by hash. There are two generations: when the younger is
// full, it becomes the older, and definitions of the older one that have not been used since are forgotten.
type programs struct {
	shared *Shared
	// now is never changed in place: definitions are looked up for each fact, and seldom prepared.
	now atomic.Pointer[generations]
}

type generations struct {
	young, old map[string]prepared
	bytes      int // of young
}

// prepared is a program and the size of the definition that it was compiled from.
type prepared struct {
	*Program
	bytes int
}

// Program returns the compiled definition with that hash, or nil if it was not prepared, or forgotten.
func (s *programs) Program(hash string) *Program {
	now := s.now.Load()
	if p, ok := now.young[hash]; ok {
		return p.Program
	}
	p, ok := now.old[hash]
	if ok {
		s.keep(hash, p)
	}
	return p.Program
}

// Kept returns how many compiled definitions are in memory.
func (s *programs) Kept() int {
	now := s.now.Load()
	return len(now.young) + len(now.old)
}

// keep adds a program to the younger generation.
func (s *programs) keep(hash string, p prepared) {
	for {
		old := s.now.Load()
		next := generations{young: maps.Clone(old.young), old: old.old, bytes: old.bytes + p.bytes}
		if len(old.young) > 0 && next.bytes > programBytes {
			next = generations{young: map[string]prepared{}, old: old.young, bytes: p.bytes}
		} else if _, again := old.old[hash]; again {
			next.old = maps.Clone(old.old)
			delete(next.old, hash)
		}
		next.young[hash] = p
		if s.now.CompareAndSwap(old, &next) {
			return
		}
	}
}

// Shared lets the schedulers of a process share compiled definitions. It keeps nothing in memory itself.
type Shared struct {
	// keys open the values of tasks; nil if this process has none.
	keys Keys
	mu   sync.Mutex
	kept map[string]weak.Pointer[Program]
}

// NewShared returns an empty Shared.
func NewShared() *Shared { return &Shared{kept: map[string]weak.Pointer[Program]{}} }

// NewSharedWith is NewShared for a process that can open sealed values.
func NewSharedWith(keys Keys) *Shared {
	s := NewShared()
	s.keys = keys
	return s
}

// New returns a Scheduler that knows no definition.
func (s *Shared) New() *Scheduler {
	p := &programs{shared: s}
	p.now.Store(&generations{young: map[string]prepared{}})
	return &Scheduler{programs: p}
}

func (s *Shared) find(hash string) *Program {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[hash].Value()
}

// add also removes entries that nobody keeps any more: compiling takes longer than looking through all of them.
func (s *Shared) add(hash string, p *Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.kept, func(_ string, w weak.Pointer[Program]) bool { return w.Value() == nil })
	s.kept[hash] = weak.Make(p)
}
