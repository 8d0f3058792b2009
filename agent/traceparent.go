package agent

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
)

var traceparentShape = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceparentOr returns the trace context of a request, or a fresh one where it has none or a malformed one: it goes
// into an HTTP header, and a service should be able to tie its logs to the attempt in every case.
func traceparentOr(s string) string {
	if traceparentShape.MatchString(s) {
		return s
	}
	var b [24]byte
	rand.Read(b[:]) //nolint:errcheck // crypto/rand.Read never fails since Go 1.24.
	return "00-" + hex.EncodeToString(b[:16]) + "-" + hex.EncodeToString(b[16:]) + "-01"
}
