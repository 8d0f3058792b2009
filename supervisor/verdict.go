package supervisor

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/events"
)

// Failure is a failed attempt to be judged.
type Failure struct {
	Task      *events.Task
	Path      string
	Operation events.Operation
	Error     events.Error
	// Effect is what the attempt may have changed; it counts for the pivot.
	Effect     events.Effect
	RetryAfter time.Duration
	// Missing says that the attempt timed out and no live instance of its agent offers the operation.
	Missing bool
	// Unsent says that the attempt timed out and no broker has acknowledged its request.
	Unsent bool
	// Stopped says that the agent stopped in the middle of the attempt, of which it had shown progress.
	Stopped bool
	// Over says that the time of the step is over: no other attempt may start.
	Over   bool
	Policy events.Policy
	Now    events.Instant
}

// JudgeFailure judges a failure by the policy alone: another attempt after a backoff, a new round of attempts after a cool-down,
// undoing, or leaving it to an operator. It is pure.
func JudgeFailure(f Failure) events.Verdict {
	v := judgeFailure(f)
	if by := events.StartBy(f.Task, f.Path, f.Operation); by != 0 && v.At >= by {
		uncounted := v.Uncounted
		v = lapsed(f, fmt.Sprintf("another attempt could not start before %s: %s", by, v.Reason))
		v.Uncounted = uncounted
	}
	return v
}

func judgeFailure(f Failure) events.Verdict {
	if f.Operation == events.Undo {
		return judgeUndo(f)
	}
	if f.Task.State == events.TaskStateUndoing || f.Task.ParkedFrom == events.TaskStateUndoing {
		return events.Verdict{Action: events.ActionUndo, Reason: "the task is being undone"}
	}
	var tries, coolDowns, attempts int
	if s := f.Task.Step(f.Path); s != nil {
		tries, coolDowns, attempts = s.Tries, s.CoolDowns, s.Attempt
	}
	if f.Over {
		return lapsed(f, f.Error.Message)
	}
	if f.uncounts(tries, attempts) {
		return uncounted(f, attempts)
	}
	if f.Error.Class == events.ClassCheck {
		return final(f, "its result means failure: "+f.Error.Message)
	}
	if permanent(f.Error.Class) {
		return final(f, "no retry can help: "+f.Error.Message)
	}
	if tries < f.Policy.Attempts {
		at := f.Now.Add(max(Backoff(f.Policy, f.Task.ID, f.Path, f.Operation, tries), f.RetryAfter))
		return events.Verdict{Action: events.ActionRetry, At: at, Reason: fmt.Sprintf("attempt %d of %d failed: %s", tries, f.Policy.Attempts, f.Error.Message)}
	}
	if coolDowns < f.Policy.CoolDownTimes {
		at := f.Now.Add(max(f.Policy.CoolDown.Std(), f.RetryAfter))
		return events.Verdict{Action: events.ActionCoolDown, At: at, Reason: fmt.Sprintf("%s failed; cool-down %d of %d: %s", howMany(tries), coolDowns+1, f.Policy.CoolDownTimes, f.Error.Message)}
	}
	return final(f, fmt.Sprintf("%s failed: %s", howMany(tries), f.Error.Message))
}

func howMany(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

const (
	// maxUncounted bounds the attempts of a step that do not count. With pauses of up to maxPace between them, they last for
	// more than half a day; then an operator must look.
	maxUncounted = 1000
	maxPace      = time.Minute
	// UnsentReason is why an attempt whose request no broker took does not count.
	UnsentReason = "no broker acknowledged the request before the complete-by time"
	// StoppedReason is why an attempt that its agent broke off does not count.
	StoppedReason = "the agent stopped during the attempt"
)

// uncounts says whether the attempt does not count against its policy: the agent did not try, or no broker acknowledged the request,
// or the agent stopped during the attempt, or it left while it had the attempt. The last case is forgiven only once, because the attempt
// itself may have crashed the agent. None of the last three is forgiven if the policy allows one attempt: that may be meant as "at most
// once". A task that must not be planned has no policy and gets no further attempt.
func (f *Failure) uncounts(tries, attempts int) bool {
	if f.Policy.Attempts == 0 || attempts-tries >= maxUncounted {
		return false
	}
	return f.Error.Class == events.ClassUnavailable || f.Policy.Attempts > 1 && (f.Unsent || f.Stopped || f.Missing && tries == attempts)
}

// uncounted asks for another attempt. The pauses grow by a second each, or as the policy says if that is longer.
func uncounted(f Failure, attempts int) events.Verdict {
	pace := min(time.Duration(attempts)*time.Second, maxPace)
	why := f.Error.Message
	switch {
	case f.Unsent:
		why = UnsentReason
	case f.Stopped:
		why = StoppedReason
	}
	at := f.Now.Add(max(Backoff(f.Policy, f.Task.ID, f.Path, f.Operation, attempts), f.RetryAfter, pace))
	return events.Verdict{Action: events.ActionRetry, At: at, Uncounted: true, Reason: "not counted: " + why}
}

func permanent(c events.Class) bool {
	return c == events.ClassPermanent || c == events.ClassExpression || c == events.ClassLimit
}

// lapsed does what the policy says for a step whose time is over. If the task continues, nothing more happens to the step unless the task
// turns back later: then it is undone if any attempt of it may have had an effect.
func lapsed(f Failure, reason string) events.Verdict {
	if f.Operation == events.Undo {
		return undoParks(f, reason)
	}
	f.Policy.Then = cmp.Or(f.Policy.OnTimeout, f.Policy.Then)
	if f.Policy.Then == events.ActionContinue {
		return events.Verdict{Action: events.ActionContinue, Reason: fmt.Sprintf("the task goes on without step %q: %s", f.Path, reason)}
	}
	return final(f, reason)
}

// final undoes the task if the policy says so and the point of no return is not passed; otherwise it parks the task.
func final(f Failure, reason string) events.Verdict {
	reason = fmt.Sprintf("step %q: %s", f.Path, reason)
	if step, _, item := events.SplitItem(f.Path); item && !f.Task.Undoing() {
		switch s := f.Task.Step(step); {
		case s == nil || s.Fan == nil:
		//mutant:failure-beyond-tolerate-counts
		case events.Tolerates(f.Task, s):
			return events.Verdict{Action: events.ActionContinue, Reason: "tolerated: " + reason}
		case s.Fan.Tolerate > 0:
			reason += fmt.Sprintf("; of the items of %q, %d may fail, and this one is beyond that", step, s.Fan.Tolerate)
		}
	}
	// A parked task belongs to the operator: a step that fails in it waits or parks too, and undoes nothing behind
	// their back.
	if f.Policy.Then == events.ActionUndo && !irrevocableAfter(f) && f.Task.State != events.TaskStateError {
		return events.Verdict{Action: events.ActionUndo, Reason: reason}
	}
	return events.Verdict{Action: events.ActionPark, Reason: reason}
}

// irrevocableAfter says whether the task may be past its pivot once this failure is folded. If no attempt of the pivot had an
// effect, the pivot did not happen; if the outcome is unknown, it is never undone.
func irrevocableAfter(f Failure) bool {
	if f.Task.PivotPassed {
		return true
	}
	for _, s := range f.Task.Live() {
		if !s.Pivot {
			continue
		}
		if s.Touched || (s.Path == f.Path && f.Effect != events.EffectNone) {
			return true
		}
		if s.Path != f.Path && s.State == events.StepStateRunning {
			return true
		}
	}
	return false
}

func judgeUndo(f Failure) events.Verdict {
	tries, attempts := 0, 0
	if s := f.Task.Step(f.Path); s != nil && s.Undo != nil {
		tries, attempts = s.Undo.Tries, s.Undo.Attempt
	}
	if f.Over {
		return undoParks(f, f.Error.Message)
	}
	if f.uncounts(tries, attempts) {
		return uncounted(f, attempts)
	}
	if !permanent(f.Error.Class) && tries < f.Policy.Attempts {
		at := f.Now.Add(max(Backoff(f.Policy, f.Task.ID, f.Path, f.Operation, tries), f.RetryAfter))
		return events.Verdict{Action: events.ActionRetry, At: at, Reason: fmt.Sprintf("undo attempt %d of %d failed: %s", tries, f.Policy.Attempts, f.Error.Message)}
	}
	return undoParks(f, f.Error.Message)
}

func undoParks(f Failure, reason string) events.Verdict {
	return events.Verdict{Action: events.ActionPark, Reason: fmt.Sprintf("step %q cannot be undone: %s", f.Path, reason)}
}

// Backoff returns how long to wait before the attempt that follows the given number of tries: backoff times
// factor^(tries-1), at most max, spread by a quarter either way. The spread is a function of task, step and try, so
// that the wait is the same wherever it is computed, and a thousand tasks that failed together do not come back
// together.
func Backoff(p events.Policy, task, path string, op events.Operation, tries int) time.Duration {
	// The power is bounded before it is multiplied, because infinity times a zero backoff is NaN.
	wait := float64(p.Backoff) * min(math.Pow(max(p.Factor, 1), float64(max(tries, 1)-1)), math.MaxInt64)
	if p.MaxBackoff > 0 {
		wait = min(wait, float64(p.MaxBackoff))
	}
	wait = min(wait, float64(24*time.Hour)) // without a maximum, the factor would lead to pauses of years
	h := fnv.New64a()
	for _, s := range []string{task, path, string(op), strconv.Itoa(tries)} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	spread := 0.75 + float64(h.Sum64()%1000)/2000
	return time.Duration(wait * spread).Truncate(time.Millisecond)
}
