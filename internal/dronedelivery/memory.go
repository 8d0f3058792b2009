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
	// undone holds each resource and key that an accepted undo named.
	undone map[digest]struct{}
}

// deed is a PUT that took effect.
type deed struct {
	at int64
	// id is the digest of resource and key; zero without a key.
	id digest
}

// digest is a hash of names: 128 bits of SHA-256, so that in practice two names never have the same one.
type digest [16]byte

func newMemory() *memory {
	return &memory{deeds: map[digest]int64{}, inForce: map[digest]deed{}, undone: map[digest]struct{}{}}
}

// undoneKey says whether an accepted undo named the key.
func (m *memory) undoneKey(resource, key string) bool {
	_, ok := m.undone[deedOf(resource, key)]
	return ok
}

// did returns the offset of an earlier PUT with the same resource and key. A call without a key is never a repetition.
func (m *memory) did(c call) (at int64, ok bool) {
	if c.key == "" {
		return 0, false
	}
	at, ok = m.deeds[deedOf(c.resource, c.key)]
	return at, ok
}

// current returns the PUT that is in force for a resource.
func (m *memory) current(resource string) (deed, bool) {
	d, ok := m.inForce[digestOf(resource)]
	return d, ok
}

// takesBack says whether there is something for this undo to remove: the result of the do that it names, or anything at all if a
// person sent it. A delayed undo must not destroy the work of another task, another run, or a later task with the same ID.
func (m *memory) takesBack(c call) bool {
	d, ok := m.current(c.resource)
	return ok && (c.undoes == "" || d.id == deedOf(c.resource, c.undoes))
}

// fold applies one line of the ledger, which begins at the given offset. Memory changes only through it, live and after a
// restart.
func (m *memory) fold(l Line, resource string, at int64) {
	switch {
	case l.Method == http.MethodPut && l.Applied:
		id := deedOf(resource, l.IdempotencyKey)
		if id != (digest{}) {
			m.deeds[id] = at
		}
		m.inForce[digestOf(resource)] = deed{at: at, id: id}
	case l.Method == http.MethodDelete && l.Tombstone:
		m.bury(deedOf(resource, l.Undoes))
		if d, ok := m.current(resource); ok && l.Applied {
			m.bury(d.id) // a person's DELETE names no key, and what it removed must not come back either
			delete(m.inForce, digestOf(resource))
		}
	case l.Method == http.MethodDelete && l.Applied: // by an unkind service, which leaves no tombstone
		delete(m.inForce, digestOf(resource))
	}
}

func (m *memory) bury(id digest) {
	if id != (digest{}) {
		m.undone[id] = struct{}{}
	}
}

// deedOf identifies the call that has the key. It is zero for an empty key.
func deedOf(resource, key string) digest {
	if key == "" {
		return digest{}
	}
	return digestOf(resource, key)
}

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
