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
	// again says that another try may help and fits before the complete-by time.
	again bool
}

// executor makes attempts of one agent. It is shared by the agent's workers.
type executor struct {
	agent       *agent
	retry       Retry
	policy      retrypolicy.RetryPolicy[try]
	gate        *gate
	limit       *limiter
	outputLimit int
	log         *slog.Logger
}

// reportShare and its bounds say how much of an attempt's time is kept back for the way of its report: a failure that
// arrives after the complete-by time was decided by nobody. A hop and the owner's batch take some milliseconds.
const (
	reportShare     = 20
	reportMarginMin = 5 * time.Millisecond
	reportMarginMax = 250 * time.Millisecond
)

func reportMargin(left time.Duration) time.Duration {
	return min(max(left/reportShare, reportMarginMin), reportMarginMax)
}

// execute makes one attempt: one try or several, all with the same identifier. ctx ends at the complete-by time.
//
// The effect of a failed attempt is none only if that of each of its tries is: a refusal of the second try does not
// undo what the first may have done.
func (x *executor) execute(ctx context.Context, w *events.Work) try {
	op, ok := x.agent.operations[w.Operation]
	if !ok {
		return try{failure: refusal("no_operation", fmt.Errorf("%w: agent %s, %s", ErrNoOperation, x.agent.name, w.Operation))}
	}
	by := w.CompleteBy.Time()
	now := time.Now()
	if !now.Before(by) || ctx.Err() != nil {
		return try{failure: &Failure{Class: events.ClassInternal, Effect: events.EffectNone, Code: "not_tried", Err: context.Canceled}}
	}
	a := onceArgs{op: op, work: w, until: by.Add(-reportMargin(by.Sub(now)))}
	last := x.once(ctx, a)
	f := last.failure
	if f == nil {
		return last
	}
	if f.Effect != events.EffectNone {
		f.Effect = events.EffectUnknown
	}
	if x.retry.Tries <= 1 || !x.another(f, 1, a.until) {
		return last
	}
	return x.again(ctx, a, last)
}

// another tells whether a try may follow the given number of tries, of which the last one failed so.
func (x *executor) another(f *Failure, tries int, until time.Time) bool {
	return f.Class == events.ClassRetryable && f.Code != "breaker_open" &&
		time.Now().Add(x.retry.longest(tries, f.RetryAfter)).Before(until)
}

// again goes on behind a first try that failed. failsafe is told of that one as if it had made it: most attempts need one
// try, and what failsafe sets up for each execution costs more than all else of it.
func (x *executor) again(ctx context.Context, a onceArgs, first try) try {
	first.again = true
	last, tries := first, 0
	effect := events.EffectNone
	_, _ = failsafe.With[try](x.policy).WithContext(ctx).Get(func() (try, error) {
		tries++
		if tries > 1 {
			a.later = true
			last = x.once(ctx, a)
			last.again = last.failure != nil && x.another(last.failure, tries, a.until)
		}
		if f := last.failure; f != nil && f.Effect != events.EffectNone {
			effect = events.EffectUnknown
		}
		return last, nil
	})
	// The result is read from last: when the context ends during a wait, failsafe returns the context's error, and
	// what counts is how the last try ended.
	if last.failure != nil {
		last.failure.Effect = effect
	}
	return last
}

type onceArgs struct {
	op    operation
	work  *events.Work
	until time.Time
	// later says that a try went before.
	later bool
}

// once makes one try, behind the breaker.
//
// The first try may use all the time up to the complete-by time. A later one ends a margin before it, so that the
// attempt's failure is still reported and the engine can decide instead of waiting.
func (x *executor) once(ctx context.Context, a onceArgs) try {
	if f := x.gate.enter(ctx, a.until); f != nil {
		return try{failure: f}
	}
	began := time.Now()
	tryCtx := ctx
	if a.later {
		var cancel context.CancelFunc
		tryCtx, cancel = context.WithDeadline(ctx, a.until)
		defer cancel()
	}
	out, err := x.invoke(tryCtx, a)
	x.limit.called(a.work.Operation, began, err)
	if err == nil && len(out) > x.outputLimit {
		err = &Failure{
			Class: events.ClassPermanent, Effect: events.EffectUnknown, Code: "output_limit",
			Err: fmt.Errorf("%w: %d bytes, the limit is %d", ErrOutputLimit, len(out), x.outputLimit),
		}
	}
	if err == nil {
		x.gate.done(served)
		return try{output: out}
	}
	f := failureOf(err)
	x.gate.done(judge(tryCtx, f, time.Since(began)))
	return try{failure: f}
}

// judge says what a failed try tells about the remote service.
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

// invoke calls the operation and turns a panic into a failure of unknown effect.
func (x *executor) invoke(ctx context.Context, a onceArgs) (out json.RawMessage, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		x.log.Error("a function panicked", "agent", x.agent.name, "task", a.work.Task, "step", a.work.Step,
			"attempt", a.work.Attempt, "panic", oneLine(fmt.Sprint(p)), "stack", string(debug.Stack()))
		out = nil
		err = &Failure{
			Class: events.ClassInternal, Effect: events.EffectUnknown, Code: "panic", Err: fmt.Errorf("panic: %v", p),
		}
	}()
	return a.op(ctx, order{work: a.work, outputLimit: x.outputLimit})
}
