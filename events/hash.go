package events

import (
	"bytes"
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
func (h Hash) String() string {
	b, _ := h.MarshalText()
	return string(b)
}

// MarshalText writes 32 hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], h.Hi)
	binary.BigEndian.PutUint64(raw[8:], h.Lo)
	return hex.AppendEncode(make([]byte, 0, 32), raw[:]), nil
}

// UnmarshalText reads 32 hexadecimal digits.
func (h *Hash) UnmarshalText(b []byte) error {
	var raw [16]byte
	if len(b) != 2*len(raw) {
		return fmt.Errorf("%q is not a hash of 32 hexadecimal digits", Clip(string(b), maxQuotedBytes))
	}
	if _, err := hex.Decode(raw[:], b); err != nil {
		return fmt.Errorf("%q is not a hash of 32 hexadecimal digits", b)
	}
	h.Hi, h.Lo = binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
	return nil
}

// HashInput returns the hash of an input that its fact stores: 16 hexadecimal digits of SHA-256 over key and value, separated
// by NUL. A claimer re-reads the last passed input and compares the hash, so that it notices if a topic has lost its tail or was
// recreated.
func HashInput(r *Record) string {
	var room [1024]byte
	b := append(append(room[:0], r.Key...), 0)
	if len(r.Value) > cap(b)-len(b) { // not to be copied
		return short(sumOf(b, r.Value))
	}
	sum := sha256.Sum256(append(b, r.Value...))
	return short(&sum)
}

// HashRecord is HashInput with the headers. It ties a store to the log: two facts may have the same key and value, and
// differ only in epoch and sequence.
func HashRecord(r *Record) string {
	var room [2048]byte
	b := appendPart(appendPart(room[:0], r.Key), r.Value)
	for i := range r.Headers {
		h := &r.Headers[i]
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(h.Key))), h.Key...)
		b = appendPart(b, h.Value)
	}
	sum := sha256.Sum256(b)
	return short(&sum)
}

func appendPart(dst, part []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(len(part))), part...)
}

// sumOf returns SHA-256 over head and rest.
func sumOf(head, rest []byte) *[sha256.Size]byte {
	d := sha256.New()
	d.Write(bytes.Clone(head)) // the array is on the caller's stack
	d.Write(rest)
	return (*[sha256.Size]byte)(d.Sum(nil))
}

// short returns 16 hexadecimal digits.
func short(sum *[sha256.Size]byte) string {
	var digits [16]byte
	return string(hex.AppendEncode(digits[:0], sum[:8]))
}
