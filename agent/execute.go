package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/sagalog/sagalog/events"
)

// try is how one try of an attempt ended.
type try struct {
	output  json.RawMessage
	failure *Failure
	// retry says that another try may help and fits before the complete-by time.
	retry bool
	// doubt says that, despite the success, an earlier try or another run of the attempt may still be under way.
	doubt bool
}

// executor makes attempts of one agent. It is shared by the agent's workers.
type executor struct {
	agent       *agent
	retry       Retry
	policy      retrypolicy.RetryPolicy[try]
	gate        *gate
	limit       *limiter
	outputLimit int
	trace       Trace // may be nil
	log         *slog.Logger
}

// reportShare and its bounds say how much of an attempt's time is reserved for its report, because a failure that arrives after
// the complete-by time is ignored. The network and the owner's batch take a few milliseconds.
const (
	reportShare     = 20
	reportMarginMin = 5 * time.Millisecond
	reportMarginMax = 250 * time.Millisecond
)

func reportMargin(left time.Duration) time.Duration {
	return min(max(left/reportShare, reportMarginMin), reportMarginMax)
}

// execute makes one attempt: one or more tries, all with the same identifier. ctx ends at the complete-by time.
//
// A failed attempt has the effect none only if each of its tries has: a refusal of the second try does not
// undo what the first may have done.
func (x *executor) execute(ctx context.Context, w *events.Work) try {
	call := w.Call()
	fn, ok := x.agent.functions[events.Call{Function: call.Function, Operation: call.Operation}]
	if !ok {
		// Another instance may offer it, for example while a new version is being deployed.
		return try{failure: &Failure{Class: events.ClassUnavailable, Effect: events.EffectNone, Code: "no_operation",
			Err: fmt.Errorf("this instance does not offer the operation: agent %s, %s; it offers %s", x.agent.name, call.Verb(), x.agent.verbs())}}
	}
	by := w.CompleteBy.Time()
	if cap, ok := ctx.Deadline(); ok && w.Heartbeat > 0 {
		by = cap
	}
	now := time.Now()
	if !now.Before(by) || ctx.Err() != nil {
		return try{failure: &Failure{Class: events.ClassUnavailable, Effect: events.EffectNone, Code: "not_tried", Err: context.Canceled}}
	}
	a := onceArgs{fn: fn, work: w, until: by.Add(-reportMargin(by.Sub(now)))}
	last := x.once(ctx, a)
	f := last.failure
	if f == nil {
		return last
	}
	if f.Effect != events.EffectNone && f.Effect != events.EffectDoneUnknown {
		f.Effect = events.EffectInDoubt
	}
	if x.retry.Tries <= 1 || !x.mayRetry(f, 1, a.until) {
		return last
	}
	return x.retryFrom(ctx, a, last)
}

// mayRetry reports whether another try may follow the given number of tries, the last of which failed with f.
func (x *executor) mayRetry(f *Failure, tries int, until time.Time) bool {
	return f.Class == events.ClassRetryable &&
		time.Now().Add(x.retry.longest(tries, f.RetryAfter)).Before(until)
}

// retryFrom continues after a first try that failed. failsafe receives the outcome of that try as if it had made the try itself.
// Most attempts need only one try, and setting up an execution in failsafe would cost more than the rest of the attempt.
func (x *executor) retryFrom(ctx context.Context, a onceArgs, first try) try {
	first.retry = true
	last, tries := first, 0
	effect := events.EffectNone
	_, _ = failsafe.With[try](x.policy).WithContext(ctx).Get(func() (try, error) {
		tries++
		if tries > 1 {
			a.later = true
			last = x.once(ctx, a)
			last.retry = last.failure != nil && x.mayRetry(last.failure, tries, a.until)
		}
		switch f := last.failure; {
		case f == nil, f.Effect == events.EffectNone:
		case f.Effect == events.EffectDoneUnknown && effect != events.EffectInDoubt:
			effect = events.EffectDoneUnknown
		default:
			effect = events.EffectInDoubt
		}
		return last, nil
	})
	// The result comes from last, because failsafe returns the context's error if the context ends during a wait, and not the
	// outcome of the last try.
	last.doubt = last.doubt || effect == events.EffectInDoubt
	if last.failure != nil {
		last.failure.Effect = effect
		if last.failure.Class == events.ClassUnavailable {
			last.failure.Class = events.ClassRetryable // earlier tries did call the service, so the attempt was made
		}
	}
	return last
}

type onceArgs struct {
	fn    RawFunc
	work  *events.Work
	until time.Time
	// later is true for every try but the first.
	later bool
}

// once makes one try, if the breaker permits it.
//
// The first try may use all the time up to the complete-by time. A later one ends a margin before it, so that the
// attempt's failure is still reported and the engine can decide instead of waiting.
func (x *executor) once(ctx context.Context, a onceArgs) try {
	if f := x.gate.enter(ctx, a.until); f != nil {
		return try{failure: f}
	}
	q, _ := ctx.Value(attemptKey{}).(*request)
	if q != nil {
		q.tries.Add(1)
		q.accepted.Store(false)
	}
	began := time.Now()
	tryCtx := ctx
	if a.later {
		var cancel context.CancelFunc
		tryCtx, cancel = context.WithDeadline(ctx, a.until)
		defer cancel()
	}
	callCtx, end := x.traced(tryCtx, q)
	ended := false
	defer func() {
		if !ended { // by runtime.Goexit
			end(exited())
			x.gate.record(unclear)
		}
	}()
	out, f := x.invoke(callCtx, a)
	ended = true
	x.limit.record(a.work.Operation, began, f)
	if limit := q.sealedRoom(x.outputLimit); f == nil && len(out) > limit {
		f = &Failure{
			Class: events.ClassPermanent, Effect: events.EffectDoneUnknown, Code: "output_limit",
			Err: fmt.Errorf("output is over the limit: %d bytes, the limit is %d", len(out), limit),
		}
	}
	if f == nil {
		end(nil)
		x.gate.record(served)
		return try{output: out, doubt: q != nil && q.doubt.Load()}
	}
	end(f)
	if q != nil && f.Effect == events.EffectInDoubt {
		q.doubt.Store(true)
	}
	if q != nil && q.unwanted.Load() { // the service is not to blame
		x.gate.record(unclear)
	} else {
		x.gate.record(judge(tryCtx, f, time.Since(began)))
	}
	return try{failure: f}
}

// judge returns the verdict of a failed try on the remote service.
func judge(ctx context.Context, f *Failure, took time.Duration) verdict {
	switch {
	case f.Class == events.ClassPermanent:
		return served
	case f.Class != events.ClassRetryable:
		return unclear
	case ctx.Err() != nil && context.Cause(ctx) == ErrStopped:
		return unclear
	case ctx.Err() != nil && took < fairTry:
		return unclear
	default:
		return failed
	}
}

// invoke calls the operation and turns a panic into a failure of unknown effect. If the operation calls
// runtime.Goexit, the goroutine ends, and a deferred function of a caller reports the attempt.
func (x *executor) invoke(ctx context.Context, a onceArgs) (out json.RawMessage, f *Failure) {
	returned := false
	defer func() {
		p := recover()
		if p == nil && returned {
			return
		}
		log := x.log.With("task", a.work.Task, "step", a.work.Step, "attempt", a.work.Attempt, "stack", string(debug.Stack()))
		if p == nil {
			log.Error("a function called runtime.Goexit")
			return
		}
		text := oneLine(fmt.Sprint(p))
		if q, _ := ctx.Value(attemptKey{}).(*request); q != nil && q.secret {
			text = fmt.Sprintf("%T; its text may hold sealed content", p)
		}
		log.Error("a function panicked", "panic", text)
		out, f = nil, broken("panic", fmt.Errorf("panic: %v", p))
	}()
	out, err := a.fn(ctx, a.work, x.outputLimit)
	if err != nil {
		out, f = nil, settle(err)
	}
	returned = true
	return out, f
}
