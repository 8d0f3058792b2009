package agent

import (
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/agent/internal/offsets"
	"github.com/sagalog/sagalog/events"
)

// request is a work request that a consumer holds.
type request struct {
	work        events.Work
	traceparent string
	// given is the trace context that came with the request; empty if none did. Its report carries no other.
	given string
	// call is the trace context of the latest call, or nil if that has no span.
	call atomic.Pointer[string]
	// by is the complete-by time of the request, by this machine's clock. Nothing starts after it.
	by time.Time
	// places are the partition and offset of the request. There are several if it was sent more than once. Guarded by the
	// pool's mu.
	places []offsets.Place
	first  [1]offsets.Place
	// after is the number of the last ownership question that was asked before the request was read (at its latest offset).
	// Guarded by the pool's mu.
	after int64
	// attempt and report are the contexts of the function and of the report.
	attempt, report deadline
	// progress is the state of the report: unsent, sent or answered. The goroutine that changes it from sent to answered
	// releases the request.
	progress atomic.Int32
	// tries counts the calls of the function.
	tries atomic.Int32
	// shared says that another instance may have received the request too. Set before the function is called.
	shared bool
	// doubt says that something of the attempt may still be under way although the function has returned.
	doubt atomic.Bool
	// accepted says that the attempt goes on elsewhere, and is reported from there.
	accepted atomic.Bool
	// like is the input as it came if it was sealed as a whole. Set before the function is called.
	like []byte
	// secret says that something of the content came sealed, so what a function says may quote it. Set together with like.
	secret bool
	// beats is nil unless the attempt has a heartbeat.
	beats *beats
	// unwanted says that a stop has come. begun says that attempt is set.
	unwanted, begun atomic.Bool
}

// The progress of a report.
const (
	unsent int32 = iota
	sent
	answered
)

// attemptID identifies an attempt: two requests with the same attemptID are duplicates.
type attemptID struct {
	task      string
	ticket    string
	run       int
	step      string
	operation events.Operation
	attempt   int
}

// until returns the end of the attempt: its complete-by time, or later if it has a heartbeat and has shown progress.
func (q *request) until() time.Time {
	if q.beats == nil {
		return q.by
	}
	return q.beats.until()
}

func (q *request) id() attemptID {
	return attemptID{q.work.Task, q.work.Ticket, q.work.Run, q.work.Step, q.work.Operation, q.work.Attempt}
}

// stepID identifies a step in one run of its task. In a run, a step is never done again after its undo.
type stepID struct {
	task   string
	ticket string
	run    int
	step   string
}

func (q *request) step() stepID { return stepID{q.work.Task, q.work.Ticket, q.work.Run, q.work.Step} }
