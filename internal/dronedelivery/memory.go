package dronedelivery

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
)

// memory is what a service knows: the fold of its ledger, and nothing else. It holds digests and places in the ledger
// rather than names and bodies, because a load test leaves millions of things.
//
// It is not safe for concurrent use; the service's mutex guards it.
type memory struct {
	// deeds has the place of the applied PUT of a resource and key.
	deeds map[digest]int64
	// inForce has the last applied PUT of each resource that was not undone.
	inForce map[digest]deed
	// undone has, for a resource and task, the greatest run of which an undo was accepted.
	undone map[digest]int
}

// deed is a PUT that took effect.
type deed struct {
	at   int64
	run  int
	task digest
}

// digest stands for names: 128 bits of SHA-256, so that two names never share one in practice.
type digest [16]byte

func newMemory() *memory {
	return &memory{deeds: map[digest]int64{}, inForce: map[digest]deed{}, undone: map[digest]int{}}
}

// tooLate says whether the call is a do that an accepted undo has overtaken.
func (m *memory) tooLate(c call) bool {
	run, ok := m.undone[graveOf(c.resource, digestOf(c.task))]
	return ok && c.run <= run
}

// did returns the place of the PUT that had the same effect before. A call without a key repeats nothing.
func (m *memory) did(c call) (at int64, ok bool) {
	if c.key == "" {
		return 0, false
	}
	at, ok = m.deeds[digestOf(c.resource, c.key)]
	return at, ok
}

// current returns the PUT that is in force for a resource.
func (m *memory) current(resource string) (deed, bool) {
	d, ok := m.inForce[digestOf(resource)]
	return d, ok
}

// takesBack says whether an undo finds something of its own. What another task did, or a later run of its own, stays:
// an undo that was under way for long must not destroy what a rerun has built.
func (m *memory) takesBack(c call) bool {
	d, ok := m.current(c.resource)
	return ok && (c.task == "" || d.task == digestOf(c.task) && d.run <= c.run)
}

// fold takes in one line of the ledger, which begins at the given place. It is the only way in which memory changes,
// live and after a restart.
func (m *memory) fold(l Line, resource string, at int64) {
	task := digestOf(l.Task)
	switch {
	case l.Method == http.MethodPut && l.Applied:
		if l.IdempotencyKey != "" {
			m.deeds[digestOf(resource, l.IdempotencyKey)] = at
		}
		m.inForce[digestOf(resource)] = deed{at: at, run: l.Run, task: task}
	case l.Method == http.MethodDelete && l.Tombstone:
		m.bury(resource, task, l.Run)
		if d, ok := m.current(resource); ok && l.Applied {
			// A DELETE without a task took back another's deed; that one must not come again either.
			m.bury(resource, d.task, d.run)
			delete(m.inForce, digestOf(resource))
		}
	}
}

func (m *memory) bury(resource string, task digest, run int) {
	g := graveOf(resource, task)
	m.undone[g] = max(m.undone[g], run)
}

func graveOf(resource string, task digest) digest { return digestOf(resource, string(task[:])) }

// digestOf hashes parts with their lengths, so that moving a letter from one part to the next changes it.
func digestOf(parts ...string) digest {
	b := make([]byte, 0, 256)
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return digest(sum[:16])
}
