package api

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"sync"

	"github.com/google/uuid"
)

// random gives the random bytes of identifiers. They are read ahead, since the system takes as long to give sixteen as
// to give some thousand. Identifiers are no secrets: that the next ones lie in memory tells nobody anything.
var random = sync.Pool{New: func() any { return bufio.NewReaderSize(rand.Reader, 4096) }}

// newUUID makes a UUIDv7, so that IDs sort by time.
func newUUID() uuid.UUID {
	r := random.Get().(*bufio.Reader)
	defer random.Put(r)
	return uuid.Must(uuid.NewV7FromReader(r))
}

// newID generates the ID of a task whose submitter chose none, of an event or of a request.
func newID() string { return newUUID().String() }

const uuidBytes = 36

func appendUUID(dst []byte, u uuid.UUID) []byte {
	dst = append(hex.AppendEncode(dst, u[:4]), '-')
	dst = append(hex.AppendEncode(dst, u[4:6]), '-')
	dst = append(hex.AppendEncode(dst, u[6:8]), '-')
	dst = append(hex.AppendEncode(dst, u[8:10]), '-')
	return hex.AppendEncode(dst, u[10:])
}

const traceBytes = 55

// traceparent returns the client's trace context, or a new one, so that every task has one to be found by.
func traceparent(given string) string {
	if isTrace(given) {
		return given
	}
	return string(appendTrace(make([]byte, 0, traceBytes)))
}

// isTrace says whether a traceparent can be taken over: two, 32, 16 and two lower-case hexadecimal digits, of a version
// that there is, with a trace and a span.
func isTrace(s string) bool {
	if len(s) != traceBytes || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; i != 2 && i != 35 && i != 52 && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s[:2] != "ff" && s[3:35] != zeros[:32] && s[36:52] != zeros[:16]
}

const zeros = "00000000000000000000000000000000"

// appendTrace makes a trace context.
func appendTrace(dst []byte) []byte {
	r := random.Get().(*bufio.Reader)
	defer random.Put(r)
	b, err := r.Peek(24)
	if err != nil {
		panic("api: the system gives no random bytes: " + err.Error())
	}
	dst = hex.AppendEncode(append(dst, "00-"...), b[:16])
	dst = hex.AppendEncode(append(dst, '-'), b[16:])
	_, _ = r.Discard(len(b))
	return append(dst, "-01"...)
}
