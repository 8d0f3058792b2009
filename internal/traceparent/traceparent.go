package traceparent

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// length is the length of version, trace, parent and flags in lower-case hexadecimal digits, separated by dashes.
const length = 2 + 1 + 32 + 1 + 16 + 1 + 2

const zeros = "00000000000000000000000000000000"

// Or returns the given trace context, or a new one that is not sampled if it is missing or malformed.
func Or(given string) string {
	if Valid(given) {
		return given
	}
	var b [length]byte
	return string(appendNew(b[:0]))
}

// Given returns the given trace context, or nothing if it is malformed.
func Given(given string) string {
	if Valid(given) {
		return given
	}
	return ""
}

// New returns a new trace context that is not sampled. The numbers in it must be unique, but need not be secret.
func New() []byte { return appendNew(make([]byte, 0, length)) }

func appendNew(dst []byte) []byte {
	var raw [24]byte
	for i := range 3 {
		binary.NativeEndian.PutUint64(raw[8*i:], rand.Uint64())
	}
	b := hex.AppendEncode(append(dst, "00-"...), raw[:16])
	return append(hex.AppendEncode(append(b, '-'), raw[16:]), "-00"...)
}

// Valid says whether a trace context has the right form, a known version, a trace and a parent.
func Valid(s string) bool {
	if len(s) != length {
		return false
	}
	for i := range len(s) {
		c := s[i]
		dash := i == 2 || i == 35 || i == 52
		if dash != (c == '-') || !dash && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s[:2] != "ff" && s[3:35] != zeros && s[36:52] != zeros[:16]
}
