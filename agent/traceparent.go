package agent

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// traceparentOr returns the trace context of a request, or a fresh one where it has none or a malformed one: it goes
// into an HTTP header, and a service should be able to tie its logs to the attempt in every case. Its numbers need to be
// unlike others, and not secret.
func traceparentOr(s string) string {
	if isTraceparent(s) {
		return s
	}
	var raw [24]byte
	for i := range 3 {
		binary.NativeEndian.PutUint64(raw[8*i:], rand.Uint64())
	}
	b := make([]byte, 0, traceparentLength)
	b = hex.AppendEncode(append(b, "00-"...), raw[:16])
	b = hex.AppendEncode(append(b, '-'), raw[16:])
	return string(append(b, "-01"...))
}

// traceparentLength is that of version, trace, parent and flags, in lower-case hexadecimal digits with dashes between.
const traceparentLength = 2 + 1 + 32 + 1 + 16 + 1 + 2

func isTraceparent(s string) bool {
	if len(s) != traceparentLength {
		return false
	}
	for i := range len(s) {
		c := s[i]
		dash := i == 2 || i == 35 || i == 52
		if dash != (c == '-') || !dash && !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}
