package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// progressShare is how often progress is sent at most: once in this part of the heartbeat. Less often, and one lost acknowledgement would end
// the attempt.
const progressShare = 3

// Progress says that the attempt that ctx belongs to goes on, and how far it has come. An attempt of a step with a heartbeat ends a heartbeat
// after its last progress that was acknowledged: its context ends with the cause ErrCompleteBy. Nothing else extends it, so a function that
// hangs ends early. The next attempt gets the last value in the log (LastProgress), and the undo of the step sees it as step.progress.
//
// Call it as often as you like: it does not wait, and of the calls in a third of the heartbeat only the last one is sent. Of what is sent, the log
// keeps at most one value for each heartbeat, and a value that has not been sent when the function returns is lost. So the value in the log may be
// more than a heartbeat old, and the next attempt repeats what was done since then. The value may be anything that encoding/json encodes in at most
// 16 KiB; nil keeps the earlier value. Progress returns an error for any other value, and ctx's cause when the attempt has ended. Outside an attempt, and if the step has no heartbeat, it does nothing.
func Progress(ctx context.Context, value any) error {
	text, err := events.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode progress: %w", err)
	}
	q, _ := ctx.Value(attemptKey{}).(*request)
	if room := q.sealedRoom(events.MaxProgress); len(text) > room {
		return fmt.Errorf("progress has %d bytes; %d are allowed", len(text), room)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if q != nil && q.beats != nil {
		q.beats.show(text)
	}
	return nil
}

// LastProgress decodes the last progress in the log of the earlier attempts of the step into value. It returns false if they showed nothing. They may have
// gone further: the log keeps at most one value for each heartbeat, and not what was shown just before the end (see Progress).
func LastProgress(ctx context.Context, value any) (bool, error) {
	a, _ := FromContext(ctx)
	if len(a.LastProgress) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(a.LastProgress, value); err != nil {
		return false, fmt.Errorf("read the progress of an earlier attempt: %w", err)
	}
	return true, nil
}

// beats sends the progress of an attempt with a heartbeat, and ends the attempt when the progress that was acknowledged is too old.
type beats struct {
	heartbeat, pace time.Duration
	// cap is the end of the attempt in any case.
	cap time.Time
	// send sends progress and returns at once. It calls the function with the sink's answer, in another goroutine.
	send func(ctx context.Context, value json.RawMessage, done func(error))
	// expire ends the context of the attempt.
	expire context.CancelCauseFunc
	ctx    context.Context

	// mu guards the fields below.
	mu sync.Mutex
	// end is when the attempt ends unless progress is acknowledged before that, and ender ends it.
	end   time.Time
	ender *time.Timer
	// value waits to be sent; nil if nothing does. later sends it.
	value json.RawMessage
	later *time.Timer
	// sentAt is the instant before the last progress was sent. unanswered says that its answer has not come.
	sentAt     time.Time
	unanswered bool
	over       bool
}

// newBeats returns nil for a request without a heartbeat. by is the complete-by time of the request by this machine's clock.
func newBeats(w *events.Work, by time.Time) *beats {
	if w.Heartbeat <= 0 {
		return nil
	}
	beat := w.Heartbeat.Std()
	return &beats{heartbeat: beat, pace: beat / progressShare, cap: by.Add(w.CapBy.Sub(w.CompleteBy)), end: by}
}

// begin is called when the attempt begins. The context that it returns ends with the attempt.
func (b *beats) begin(parent context.Context, send func(context.Context, json.RawMessage, func(error))) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.send = send
	b.ctx, b.expire = context.WithCancelCause(parent)
	b.ender = time.AfterFunc(time.Until(b.end), b.timeUp)
	return b.ctx
}

// timeUp ends the attempt, unless its end has moved.
func (b *beats) timeUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left := time.Until(b.end); left > 0 {
		b.ender.Reset(left)
		return
	}
	b.stop(ErrCompleteBy)
}

// stop ends the attempt. mu is held.
func (b *beats) stop(cause error) {
	if b.over {
		return
	}
	b.over, b.value = true, nil
	if b.ender != nil {
		b.ender.Stop()
	}
	if b.later != nil {
		b.later.Stop()
	}
	if b.expire != nil {
		b.expire(cause)
	}
}

// finish is called when the function has returned: no progress is sent any more. until returns the end from then on.
func (b *beats) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop(context.Canceled)
}

// until returns the end of the attempt.
func (b *beats) until() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end
}

func (b *beats) show(value json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || b.send == nil {
		return
	}
	b.value = value
	b.sendSoon()
}

// sendSoon sends the value that waits, now or when the pace allows it. mu is held.
func (b *beats) sendSoon() {
	if b.over || b.unanswered || b.value == nil {
		return
	}
	if wait := time.Until(b.sentAt.Add(b.pace)); wait > 0 {
		if b.later == nil {
			b.later = time.AfterFunc(wait, b.sendNow)
		} else {
			b.later.Reset(wait)
		}
		return
	}
	value, ctx := b.value, b.ctx
	b.value, b.unanswered, b.sentAt = nil, true, time.Now()
	at := b.sentAt
	b.send(ctx, value, func(err error) { b.answered(at, value, err) })
}

func (b *beats) sendNow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sendSoon()
}

// answered takes the answer to the progress that was sent after the instant. An acknowledgement that comes after the end is too late: the
// engine may have timed the attempt out.
func (b *beats) answered(at time.Time, value json.RawMessage, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unanswered = false
	if b.over || !time.Now().Before(b.end) {
		return
	}
	if err == nil {
		if end := at.Add(b.heartbeat); end.After(b.end) {
			b.end = end
		}
		if b.end.After(b.cap) {
			b.end = b.cap
		}
		b.ender.Reset(time.Until(b.end))
	} else if b.value == nil {
		b.value = value
	}
	b.sendSoon()
}
