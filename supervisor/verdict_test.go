package supervisor_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

func seconds(n int) events.Duration { return events.Duration(time.Duration(n) * time.Second) }

func TestVerdictsOfADo(t *testing.T) {
	t.Parallel()
	base := events.Policy{Attempts: 3, Backoff: seconds(1), Factor: 2, MaxBackoff: seconds(10), Then: events.ActionUndo}
	cool := base
	cool.CoolDown, cool.CoolDownTimes = seconds(900), 2
	park := base
	park.Then = events.ActionPark
	retryable := events.Error{Class: events.ClassRetryable, Message: "no answer"}
	step := func(s events.Step) *events.Task {
		s.Path, s.State = "x", events.StepStateRunning
		return &events.Task{ID: "t", State: events.TaskStateProcessing, Steps: []*events.Step{&s}}
	}
	with := func(task *events.Task, s events.Step) *events.Task { task.Steps = append(task.Steps, &s); return task }
	for name, c := range map[string]struct {
		task   *events.Task
		policy events.Policy
		class  events.Class
		effect events.Effect
		want   events.Action
	}{
		"another attempt":                               {step(events.Step{Tries: 1}), base, "", "", events.ActionRetry},
		"the last attempt":                              {step(events.Step{Tries: 3}), base, "", "", events.ActionUndo},
		"the last attempt, then park":                   {step(events.Step{Tries: 3}), park, "", "", events.ActionPark},
		"attempts used up, a cool-down left":            {step(events.Step{Tries: 3, CoolDowns: 1}), cool, "", "", events.ActionCoolDown},
		"attempts and cool-downs used up":               {step(events.Step{Tries: 3, CoolDowns: 2}), cool, "", "", events.ActionUndo},
		"no retry can help":                             {step(events.Step{Tries: 1}), cool, events.ClassPermanent, "", events.ActionUndo},
		"an expression that fails":                      {&events.Task{ID: "t", State: events.TaskStateProcessing}, base, events.ClassExpression, events.EffectNone, events.ActionUndo},
		"a limit":                                       {step(events.Step{Tries: 1}), park, events.ClassLimit, "", events.ActionPark},
		"a refused work request":                        {step(events.Step{Tries: 1}), base, events.ClassDispatch, events.EffectNone, events.ActionRetry},
		"an attempt that was not made":                  {step(events.Step{Tries: 3}), base, events.ClassUnavailable, events.EffectNone, events.ActionRetry},
		"not made, with a task that may not be planned": {step(events.Step{Tries: 3}), events.Policy{Then: events.ActionPark}, events.ClassUnavailable, events.EffectNone, events.ActionPark},
		"while undoing":                                 {&events.Task{ID: "t", State: events.TaskStateUndoing, Steps: step(events.Step{Tries: 1}).Steps}, base, "", "", events.ActionUndo},
		"while parked":                                  {&events.Task{ID: "t", State: events.TaskStateError, Steps: step(events.Step{Tries: 1}).Steps}, base, "", "", events.ActionRetry},
		"while parked, the attempts used up":            {&events.Task{ID: "t", State: events.TaskStateError, Steps: step(events.Step{Tries: 3}).Steps}, base, "", "", events.ActionPark},
		"while parked during undo":                      {&events.Task{ID: "t", State: events.TaskStateError, ParkedFrom: events.TaskStateUndoing, Steps: step(events.Step{Tries: 1}).Steps}, base, "", "", events.ActionUndo},
		"past the pivot":                                {&events.Task{ID: "t", State: events.TaskStateProcessing, PivotPassed: true, Steps: step(events.Step{Tries: 3}).Steps}, base, "", "", events.ActionPark},
		"a pivot of unknown outcome":                    {step(events.Step{Tries: 3, Pivot: true}), base, "", events.EffectInDoubt, events.ActionPark},
		"a pivot that had no effect":                    {step(events.Step{Tries: 3, Pivot: true}), base, events.ClassPermanent, events.EffectNone, events.ActionUndo},
		"a pivot whose earlier attempt timed out":       {step(events.Step{Tries: 3, Pivot: true, Touched: true}), base, events.ClassPermanent, events.EffectNone, events.ActionPark},
		"another step's failure while the pivot runs":   {with(step(events.Step{Tries: 3}), events.Step{Path: "p", Pivot: true, State: events.StepStateRunning}), base, "", "", events.ActionPark},
		"another step's failure after a touched pivot":  {with(step(events.Step{Tries: 3}), events.Step{Path: "p", Pivot: true, State: events.StepStateWaiting, Touched: true}), base, "", "", events.ActionPark},
		"another step's failure, the pivot not reached": {with(step(events.Step{Tries: 3}), events.Step{Path: "p", Pivot: true, State: events.StepStateWaiting}), base, "", "", events.ActionUndo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := retryable
			if c.class != "" {
				e.Class = c.class
			}
			f := supervisor.Failure{Task: c.task, Path: "x", Operation: events.Do, Error: e, Effect: c.effect, Policy: c.policy, Now: start}
			v := supervisor.JudgeFailure(f)
			require.Equal(t, c.want, v.Action)
			require.NotEmpty(t, v.Reason)
			require.Equal(t, v, supervisor.JudgeFailure(f), "a verdict depends on its arguments only")
			if c.want == events.ActionRetry || c.want == events.ActionCoolDown {
				require.Greater(t, v.At, start)
			} else {
				require.Zero(t, v.At)
			}
		})
	}
}

func TestVerdictsWhenTheTimeOfAStepIsOver(t *testing.T) {
	t.Parallel()
	running := func(s events.Step) *events.Task {
		s.Path, s.State = "x", events.StepStateRunning
		return &events.Task{ID: "t", State: events.TaskStateProcessing, Steps: []*events.Step{&s}}
	}
	for name, c := range map[string]struct {
		task *events.Task
		then events.Action
		on   events.Action
		want events.Action
	}{
		"it says nothing":          {running(events.Step{Tries: 1}), events.ActionPark, "", events.ActionPark},
		"undo":                     {running(events.Step{Tries: 1}), events.ActionPark, events.ActionUndo, events.ActionUndo},
		"park":                     {running(events.Step{Tries: 1}), events.ActionUndo, events.ActionPark, events.ActionPark},
		"continue":                 {running(events.Step{Tries: 1}), events.ActionUndo, events.ActionContinue, events.ActionContinue},
		"undo, past the pivot":     {&events.Task{ID: "t", PivotPassed: true}, events.ActionPark, events.ActionUndo, events.ActionPark},
		"undo, a pivot in doubt":   {running(events.Step{Pivot: true, Touched: true}), events.ActionPark, events.ActionUndo, events.ActionPark},
		"continue, while undoing":  {&events.Task{ID: "t", State: events.TaskStateUndoing}, events.ActionUndo, events.ActionContinue, events.ActionUndo},
		"a task without a policy":  {running(events.Step{Tries: 1}), events.ActionPark, "", events.ActionPark},
		"undo, in a parked task":   {&events.Task{ID: "t", State: events.TaskStateError}, events.ActionPark, events.ActionUndo, events.ActionPark},
		"continue, past the pivot": {&events.Task{ID: "t", PivotPassed: true}, events.ActionPark, events.ActionContinue, events.ActionContinue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := supervisor.JudgeFailure(supervisor.Failure{
				Task: c.task, Path: "x", Operation: events.Do, Over: true, Now: start, Effect: events.EffectNone,
				Error:  events.Error{Class: events.ClassTimeout, Message: "too late"},
				Policy: events.Policy{Attempts: 5, Then: c.then, OnTimeout: c.on},
			})
			require.Equal(t, c.want, v.Action)
			require.Zero(t, v.At)
		})
	}
}

func TestNoAttemptIsScheduledForWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	policy := events.Policy{Attempts: 3, Backoff: seconds(8), Factor: 1, Then: events.ActionPark, OnTimeout: events.ActionContinue, CoolDown: seconds(900), CoolDownTimes: 1}
	for name, c := range map[string]struct {
		tries int
		class events.Class
		limit int // seconds from now; 0 is no limit
		want  events.Action
	}{
		"no limit":                     {1, events.ClassRetryable, 0, events.ActionRetry},
		"in time":                      {1, events.ClassRetryable, 11, events.ActionRetry},
		"too late":                     {1, events.ClassRetryable, 5, events.ActionContinue},
		"a cool-down in time":          {3, events.ClassRetryable, 901, events.ActionCoolDown},
		"a cool-down for too long":     {3, events.ClassRetryable, 900, events.ActionContinue},
		"no retry can help":            {1, events.ClassPermanent, 5, events.ActionPark},
		"not made, and later too late": {1, events.ClassUnavailable, 5, events.ActionContinue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &events.Step{Path: "x", State: events.StepStateRunning, Tries: c.tries, Attempt: c.tries, Undo: &events.UndoState{Tries: c.tries, Attempt: c.tries}}
			if c.limit > 0 {
				s.StartBy, s.Undo.StartBy = start.Add(seconds(c.limit).Std()), start.Add(seconds(c.limit).Std())
			}
			f := supervisor.Failure{
				Task: &events.Task{ID: "t", State: events.TaskStateProcessing, Steps: []*events.Step{s}}, Path: "x", Operation: events.Do, Now: start,
				Error: events.Error{Class: c.class, Message: "no"}, Effect: events.EffectNone, Policy: policy,
			}
			require.Equal(t, c.want, supervisor.JudgeFailure(f).Action)
			if f.Operation = events.Undo; c.want == events.ActionContinue {
				require.Equal(t, events.ActionPark, supervisor.JudgeFailure(f).Action)
			}
		})
	}
}

func TestVerdictsOfAnUndo(t *testing.T) {
	t.Parallel()
	p := events.Policy{Attempts: 2, Backoff: seconds(1), Factor: 2, Then: events.ActionPark}
	decide := func(tries int, class events.Class) events.Action {
		task := &events.Task{ID: "t", State: events.TaskStateUndoing, Steps: []*events.Step{{Path: "x", State: events.StepStateUndoing, Undo: &events.UndoState{State: events.StepStateRunning, Tries: tries}}}}
		return supervisor.JudgeFailure(supervisor.Failure{Task: task, Path: "x", Operation: events.Undo, Error: events.Error{Class: class}, Policy: p, Now: start}).Action
	}
	require.Equal(t, events.ActionRetry, decide(1, events.ClassRetryable))
	require.Equal(t, events.ActionPark, decide(2, events.ClassRetryable))
	require.Equal(t, events.ActionPark, decide(1, events.ClassPermanent))
	require.Equal(t, events.ActionRetry, decide(1, events.ClassTimeout))
	require.Equal(t, events.ActionRetry, decide(2, events.ClassUnavailable))
}

// An agent that stops during a long attempt costs its step nothing, unless the policy may mean "at most once".
func TestAStopDuringALongAttemptDoesNotCount(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]events.Verdict{
		1: {Action: events.ActionUndo, Reason: `step "x": 1 attempt failed: the agent is stopping`},
		2: {Action: events.ActionRetry, Uncounted: true, Reason: "not counted: " + supervisor.StoppedReason, At: start.Add(time.Second)},
	} {
		task := &events.Task{ID: "t", State: events.TaskStateProcessing, Steps: []*events.Step{{Path: "x", State: events.StepStateRunning, Tries: 1, Attempt: 1, Heartbeat: seconds(30)}}}
		v := supervisor.JudgeFailure(supervisor.Failure{
			Task: task, Path: "x", Operation: events.Do, Error: events.Error{Class: events.ClassRetryable, Message: "the agent is stopping"}, Effect: events.EffectInDoubt,
			Stopped: true, Policy: events.Policy{Attempts: attempts, Then: events.ActionUndo}, Now: start,
		})
		require.Equal(t, want, v)
	}
}

// An undo has no deadline. An agent that never tries must not keep its task from an operator without end.
func TestAttemptsThatAreNotMadeCountInTheEnd(t *testing.T) {
	t.Parallel()
	p := events.Policy{Attempts: 2, Backoff: seconds(1), Factor: 1, MaxBackoff: seconds(1), Then: events.ActionPark}
	uncounted, waited := 0, time.Duration(0)
	for {
		task := &events.Task{ID: "t", State: events.TaskStateUndoing, Steps: []*events.Step{{Path: "x", State: events.StepStateUndoing,
			Undo: &events.UndoState{State: events.StepStateRunning, Tries: 1, Attempt: uncounted + 1}}}}
		v := supervisor.JudgeFailure(supervisor.Failure{Task: task, Path: "x", Operation: events.Undo, Error: events.Error{Class: events.ClassUnavailable}, Policy: p, Now: start})
		if !v.Uncounted {
			break
		}
		uncounted++
		waited += v.At.Sub(start)
	}
	require.Equal(t, 1000, uncounted)
	require.Greater(t, waited, 12*time.Hour, "long enough for a service to come back")
	require.Less(t, 2*uncounted, events.DefaultSettings().TaskFacts, "the task can still be retried then")
}

// The timeout of an attempt whose agent left is forgiven only once: the attempt itself may be what crashes the agent.
func TestATimeoutWhileTheAgentIsMissingIsForgivenOnce(t *testing.T) {
	t.Parallel()
	p := events.Policy{Attempts: 2, Backoff: seconds(1), Factor: 2, Then: events.ActionPark}
	decide := func(tries, attempt int, missing bool) events.Verdict {
		task := &events.Task{ID: "t", State: events.TaskStateProcessing, Steps: []*events.Step{{Path: "x", State: events.StepStateRunning, Tries: tries, Attempt: attempt}}}
		return supervisor.JudgeFailure(supervisor.Failure{Task: task, Path: "x", Operation: events.Do, Missing: missing,
			Error: events.Error{Class: events.ClassTimeout}, Effect: events.EffectInDoubt, Policy: p, Now: start})
	}
	require.True(t, decide(2, 2, true).Uncounted)
	require.Equal(t, events.ActionRetry, decide(2, 2, true).Action)
	require.False(t, decide(2, 2, false).Uncounted)
	require.Equal(t, events.ActionPark, decide(2, 3, true).Action, "one was forgiven before")
	p.Attempts = 1
	require.Equal(t, events.ActionPark, decide(1, 1, true).Action, "at most once")
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	task := &events.Task{ID: "t", State: events.TaskStateProcessing, Steps: []*events.Step{{Path: "x", State: events.StepStateRunning, Tries: 1}}}
	p := events.Policy{Attempts: 3, Backoff: seconds(1), Factor: 1, Then: events.ActionPark}
	at := func(after time.Duration) events.Instant {
		return supervisor.JudgeFailure(supervisor.Failure{Task: task, Path: "x", Operation: events.Do, Error: events.Error{Class: events.ClassRetryable}, RetryAfter: after, Policy: p, Now: start}).At
	}
	require.Equal(t, start.Add(time.Minute), at(time.Minute))
	require.Equal(t, at(0), at(time.Millisecond), "no sooner than the backoff")
	require.Equal(t, at(0), at(-time.Hour))
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := events.Policy{
			Backoff:    events.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "backoff")),
			Factor:     rapid.Float64Range(0, 1000).Draw(t, "factor"),
			MaxBackoff: events.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "max")),
		}
		task, path := rapid.String().Draw(t, "task"), rapid.String().Draw(t, "path")
		tries := rapid.IntRange(0, 2000).Draw(t, "tries")
		got := supervisor.Backoff(p, task, path, events.Do, tries)
		if got != supervisor.Backoff(p, task, path, events.Do, tries) {
			t.Fatal("the result depends on more than its arguments")
		}
		if got < 0 || got > 30*time.Hour {
			t.Fatalf("%s is out of bounds", got)
		}
		want := float64(p.Backoff) * math.Pow(max(p.Factor, 1), float64(max(tries, 1)-1))
		if p.Backoff == 0 {
			want = 0
		}
		if p.MaxBackoff > 0 {
			want = min(want, float64(p.MaxBackoff))
		}
		want = min(want, float64(24*time.Hour))
		if float64(got) > want*1.25+1 || float64(got) < want*0.75-float64(time.Millisecond) {
			t.Fatalf("%s is not within a quarter of %s", got, time.Duration(want))
		}
	})
}

func TestBackoffSpreadsTasksApart(t *testing.T) {
	t.Parallel()
	p := events.Policy{Backoff: seconds(60), Factor: 1}
	seen := map[time.Duration]bool{}
	for i := range 1000 {
		seen[supervisor.Backoff(p, fmt.Sprintf("task-%d", i), "x", events.Do, 1)] = true
	}
	require.Greater(t, len(seen), 500)
}

// TestTheConsequencesOfVerdicts follows tasks through the consequences of the verdicts.
func TestTheConsequencesOfVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		workflow string
		walk     func(b *bench, a *candidate)
		want     []string
	}{
		"no failure": {twoSteps, func(b *bench, a *candidate) {
			b.done("t1", "first", 1)
			a.run()
			b.done("t1", "second", 1)
		}, []string{"Submitted", "StepStarted", "StepCompleted", "StepStarted", "StepCompleted", "TaskProcessed"}},
		"undone in reverse, steps of unknown outcome first": {twoSteps, func(b *bench, a *candidate) {
			b.done("t1", "first", 1)
			a.run()
			b.failed("t1", "second", 1, events.ClassPermanent, events.EffectDoneUnknown)
			a.run()
			b.undone("t1", "second", 1)
			a.run()
			b.undone("t1", "first", 1)
		}, []string{"Submitted", "StepStarted", "StepCompleted", "StepStarted", "StepFailed", "CompensationStarted", "Compensated", "CompensationStarted", "Compensated", "TaskUndone"}},
		"a step that had no effect is not undone": {twoSteps, func(b *bench, a *candidate) {
			b.done("t1", "first", 1)
			a.run()
			b.failed("t1", "second", 1, events.ClassPermanent, events.EffectNone)
			a.run()
			b.undone("t1", "first", 1)
		}, []string{"Submitted", "StepStarted", "StepCompleted", "StepStarted", "StepFailed", "CompensationStarted", "Compensated", "TaskUndone"}},
		"an undo that keeps failing parks, and an operator retries it": {oneStep, func(b *bench, a *candidate) {
			b.request(events.RequestCancel, "q", "t1")
			a.run()
			b.done("t1", "only", 1) // it arrives while the task is undoing: it is accepted and undone
			a.run()
			for i := range 2 {
				b.report(events.Report{Task: "t1", Step: "only", Operation: events.Undo, Attempt: i + 1, Result: events.ResultFailed})
				a.run()
				a.pass(300 * time.Millisecond)
				a.pass(300 * time.Millisecond)
			}
			b.request(events.RequestRetry, "q2", "t1")
			a.run()
			b.undone("t1", "only", 3)
		}, []string{"Submitted", "StepStarted", "CancelRequested", "StepCompleted", "CompensationStarted", "CompensationFailed", "CompensationStarted", "CompensationFailed", "TaskParked", "TaskReopened", "CompensationStarted", "Compensated", "TaskUndone"}},
		"past the pivot a cancel is refused and a failure parks": {pivoted, func(b *bench, a *candidate) {
			b.done("t1", "before", 1)
			a.run()
			b.done("t1", "point", 1)
			a.run()
			b.request(events.RequestCancel, "q", "t1")
			b.failed("t1", "behind", 1, events.ClassPermanent, "")
		}, []string{"Submitted", "StepStarted", "StepCompleted", "StepStarted", "StepCompleted", "StepStarted", "RequestRefused", "StepFailed", "TaskParked"}},
		"a pivot that says undo undoes when it is refused without effect": {pivotThatUndoes, func(b *bench, a *candidate) {
			b.done("t1", "before", 1)
			a.run()
			b.failed("t1", "point", 1, events.ClassPermanent, events.EffectNone)
			a.run()
			b.undone("t1", "before", 1)
		}, []string{"Submitted", "StepStarted", "StepCompleted", "StepStarted", "StepFailed", "CompensationStarted", "Compensated", "TaskUndone"}},
		"a pivot that says undo parks when it may have had an effect": {pivotThatUndoes, func(b *bench, a *candidate) {
			b.done("t1", "before", 1)
			a.run()
			b.failed("t1", "point", 1, events.ClassPermanent, events.EffectDoneUnknown)
		}, []string{"Submitted", "StepStarted", "StepCompleted", "StepStarted", "StepFailed", "TaskParked"}},
		"a deadline undoes": {"deadline: 3s\n" + oneStep[1:], func(b *bench, a *candidate) {
			b.failed("t1", "only", 1, events.ClassRetryable, events.EffectNone)
			a.run()
			a.pass(500 * time.Millisecond)
			a.pass(500 * time.Millisecond)
			b.failed("t1", "only", 2, events.ClassRetryable, events.EffectNone)
			a.run() // the task is parked, so the deadline only raises an alert
			a.pass(3 * time.Second)
			b.request(events.RequestCancel, "q", "t1")
		}, []string{"Submitted", "StepStarted", "StepFailed", "StepStarted", "StepFailed", "TaskParked", "DeadlinePassed", "CancelRequested", "TaskUndone"}},
		"a deadline counts on after each retry, and undoes in the end": {"deadline: 500ms\n" + oneStep[1:], func(b *bench, a *candidate) {
			for i := range 2 {
				b.failed("t1", "only", i+1, events.ClassPermanent, events.EffectNone)
				a.run()
				a.pass(3 * time.Second)
				a.pass(3 * time.Second)
				require.Equal(b.t, i+1, count[*events.DeadlinePassed](b), "a parked task raises one alert")
				b.request(events.RequestRetry, fmt.Sprint("q", i), "t1")
				a.run()
				a.pass(time.Second / 8)
			}
			a.pass(time.Second / 4)
			a.pass(time.Second / 4)
			b.failed("t1", "only", 3, events.ClassPermanent, events.EffectNone)
		}, []string{
			"Submitted", "StepStarted", "StepFailed", "TaskParked", "DeadlinePassed", "TaskReopened", "StepStarted", "StepFailed", "TaskParked", "DeadlinePassed",
			"TaskReopened", "StepStarted", "DeadlinePassed", "StepFailed", "TaskUndone",
		}},
		"past the pivot a deadline counts on and alerts again": {"deadline: 500ms\n" + pivoted[1:], func(b *bench, a *candidate) {
			b.done("t1", "before", 1)
			a.run()
			b.done("t1", "point", 1)
			a.run()
			b.failed("t1", "behind", 1, events.ClassPermanent, events.EffectNone)
			a.run()
			a.pass(3 * time.Second)
			b.request(events.RequestRetry, "q", "t1")
			a.run()
			a.pass(time.Second / 2)
			a.pass(time.Second / 4)
			b.done("t1", "behind", 2)
		}, []string{"Submitted", "StepStarted", "StepCompleted", "StepStarted", "StepCompleted", "StepStarted", "StepFailed", "TaskParked", "DeadlinePassed", "TaskReopened", "StepStarted", "DeadlinePassed", "StepCompleted", "TaskProcessed"}},
		"no undo before a timed-out attempt is quiet": {strings.Replace(oneStep, "then: park", "then: undo", 1), func(b *bench, a *candidate) {
			for range 3 {
				a.pass(1100 * time.Millisecond)
			}
			require.Zero(b.t, count[*events.CompensationStarted](b))
			a.pass(2 * time.Second)
			a.pass(100 * time.Millisecond)
			require.Equal(b.t, 1, count[*events.CompensationStarted](b))
			require.Empty(b.t, last[*events.CompensationStarted](b).Output, "its outcome is unknown")
			b.undone("t1", "only", 1)
		}, []string{"Submitted", "StepStarted", "Timeout", "StepStarted", "Timeout", "CompensationStarted", "Compensated", "TaskUndone"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.workflow)
			a := b.candidate("A").own()
			b.submit("t1", strings.Fields(c.workflow[strings.Index(c.workflow, "workflow:"):])[1], "")
			a.run()
			c.walk(b, a)
			a.run()
			require.Equal(t, c.want, b.names())
			sameEverywhere(t, b, a)
		})
	}
}
