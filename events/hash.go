package events

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
)

// Hash is a sum of entity hashes modulo 2^128, so that one entity's change costs one subtraction and one addition.
type Hash struct{ Hi, Lo uint64 }

// Add returns h + o.
func (h Hash) Add(o Hash) Hash {
	lo, c := bits.Add64(h.Lo, o.Lo, 0)
	hi, _ := bits.Add64(h.Hi, o.Hi, c)
	return Hash{hi, lo}
}

// Sub returns h - o.
func (h Hash) Sub(o Hash) Hash {
	lo, b := bits.Sub64(h.Lo, o.Lo, 0)
	hi, _ := bits.Sub64(h.Hi, o.Hi, b)
	return Hash{hi, lo}
}

// String returns 32 hexadecimal digits.
func (h Hash) String() string { return fmt.Sprintf("%016x%016x", h.Hi, h.Lo) }

// MarshalText writes 32 hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads 32 hexadecimal digits.
func (h *Hash) UnmarshalText(b []byte) error {
	var raw [16]byte
	if len(b) != 2*len(raw) {
		return fmt.Errorf("%q is not a hash of 32 hexadecimal digits", clip(string(b)))
	}
	if _, err := hex.Decode(raw[:], b); err != nil {
		return fmt.Errorf("%q is not a hash of 32 hexadecimal digits", b)
	}
	h.Hi, h.Lo = binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
	return nil
}

// Kind is a kind of entity in the state.
type Kind string

// The kinds of entities. Later versions add schedules, limits and jobs.
const (
	KindPartition  Kind = "partition"
	KindDefinition Kind = "definition"
	KindTask       Kind = "task"
	KindHeld       Kind = "held"
)

// hashEntity returns the first 128 bits of SHA-256 over kind, ID and encoding, NUL between them.
func hashEntity(k Kind, id string, encoding []byte) Hash {
	d := sha256.New()
	d.Write([]byte(k))
	d.Write([]byte{0})
	d.Write([]byte(id))
	d.Write([]byte{0})
	d.Write(encoding)
	var sum [sha256.Size]byte
	d.Sum(sum[:0])
	return Hash{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}

// HashInput returns what a fact keeps of the input that it judged: 16 hexadecimal digits of SHA-256 over key and
// value, NUL between them. A claimer re-reads the last passed input and compares, so that a lost or refilled tail
// is noticed.
func HashInput(r *Record) string {
	d := sha256.New()
	d.Write(r.Key)
	d.Write([]byte{0})
	d.Write(r.Value)
	var sum [sha256.Size]byte
	d.Sum(sum[:0])
	return hex.EncodeToString(sum[:8])
}

// HashRecord is HashInput with the headers: what ties a store to the log. Two facts may have the same key and value,
// and differ in epoch and sequence alone.
func HashRecord(r *Record) string {
	d := sha256.New()
	part := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		d.Write(n[:])
		d.Write(b)
	}
	part(r.Key)
	part(r.Value)
	for _, h := range r.Headers {
		part([]byte(h.Key))
		part(h.Value)
	}
	var sum [sha256.Size]byte
	d.Sum(sum[:0])
	return hex.EncodeToString(sum[:8])
}
