package dronedelivery

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
)

// memory is the state of a service: the fold of its ledger, and nothing else. It holds digests and offsets in the ledger rather
// than names and bodies, because a load test creates millions of things.
//
// It is not safe for concurrent use; the service's mutex guards it.
type memory struct {
	// deeds holds the offset of the applied PUT for each resource and key.
	deeds map[digest]int64
	// inForce holds the last applied PUT of each resource, unless it was undone.
	inForce map[digest]deed
	// undone holds, for each resource and task, the greatest run for which an undo was accepted.
	undone map[digest]int
}

// deed is a PUT that took effect.
type deed struct {
	at   int64
	run  int
	task digest
}

// digest is a hash of names: 128 bits of SHA-256, so that in practice two names never have the same one.
type digest [16]byte

func newMemory() *memory {
	return &memory{deeds: map[digest]int64{}, inForce: map[digest]deed{}, undone: map[digest]int{}}
}

// tooLate says whether the call is a do that an accepted undo has overtaken.
func (m *memory) tooLate(c call) bool {
	run, ok := m.undone[tombstoneOf(c.resource, digestOf(c.task))]
	return ok && c.run <= run
}

// did returns the offset of an earlier PUT with the same resource and key. A call without a key is never a repetition.
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

// takesBack says whether an undo finds something that its task did in the same run or an earlier one. Anything else stays: a
// delayed undo must not destroy the work of a rerun.
func (m *memory) takesBack(c call) bool {
	d, ok := m.current(c.resource)
	return ok && (c.task == "" || d.task == digestOf(c.task) && d.run <= c.run)
}

// fold applies one line of the ledger, which begins at the given offset. Memory changes only through it, live and after a
// restart.
func (m *memory) fold(l Line, resource string, at int64) {
	task := digestOf(l.Task)
	switch {
	case l.Method == http.MethodPut && l.Applied:
		if l.IdempotencyKey != "" {
			m.deeds[digestOf(resource, l.IdempotencyKey)] = at
		}
		m.inForce[digestOf(resource)] = deed{at: at, run: l.Run, task: task}
	case l.Method == http.MethodDelete && l.Tombstone:
		m.addTombstone(resource, task, l.Run)
		if d, ok := m.current(resource); ok && l.Applied {
			// A DELETE without a task removed the work of another task, which must not come back either.
			m.addTombstone(resource, d.task, d.run)
			delete(m.inForce, digestOf(resource))
		}
	}
}

func (m *memory) addTombstone(resource string, task digest, run int) {
	t := tombstoneOf(resource, task)
	m.undone[t] = max(m.undone[t], run)
}

func tombstoneOf(resource string, task digest) digest { return digestOf(resource, string(task[:])) }

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
