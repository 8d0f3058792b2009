package traceparent

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// The places in a trace context.
const (
	traceAt, traceEnd = 3, 35
	spanAt, spanEnd   = 36, 52
	flagsAt           = 53
)

// Sampled says whether a trace context is valid and sampled, so that its spans are exported.
func Sampled(s string) bool {
	if !Valid(s) {
		return false
	}
	low := s[length-1]
	if low >= 'a' {
		low -= 'a' - 10
	}
	return low&1 == 1
}

// Trace returns the trace of a valid trace context, in hexadecimal digits.
func Trace(s string) string { return s[traceAt:traceEnd] }

// Span returns the span of a valid trace context, in hexadecimal digits.
func Span(s string) string { return s[spanAt:spanEnd] }

// Attempt identifies an attempt of a task.
type Attempt struct {
	// Ticket is the incarnation of the task.
	Ticket, Step, Operation string
	// Number is never used twice for an operation of a step, in all runs of the task.
	Number int
}

// OfTask returns the context of the span of a run of a task. of is the valid trace context that the task carries.
func OfTask(of, ticket string, run int) string {
	return derive(of, "task", ticket, strconv.Itoa(run))
}

// OfDecision returns the context of the span of the decision to accept a task.
func OfDecision(of, ticket string) string { return derive(of, "decision", ticket) }

// OfAttempt returns the context of the span of an attempt. It does not depend on the fact that began the attempt, because a new owner sees only
// the fact that ended it.
func OfAttempt(of string, a Attempt) string {
	return derive(of, "attempt", a.Ticket, a.Step, a.Operation, strconv.Itoa(a.Number))
}

// derive returns a context with the trace and the flags of another one, and with a span ID that is a hash of that context and of the names. Tasks
// of two namespaces may belong to one trace, but their parents differ.
func derive(of string, names ...string) string {
	h := sha256.New()
	h.Write([]byte(of[:spanEnd]))
	for _, name := range names {
		h.Write(binary.AppendUvarint(nil, uint64(len(name))))
		h.Write([]byte(name))
	}
	sum := h.Sum(nil)
	sum[0] |= 1 // a span of zeros is invalid
	b := append(make([]byte, 0, length), of[:spanAt]...)
	b = hex.AppendEncode(b, sum[:8])
	return string(append(b, of[spanEnd:]...))
}
