package sim

import (
	"encoding/json"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// failure is a failed attempt as a saga sees it.
type failure struct {
	step    string
	class   events.Class
	verdict events.Verdict
	// earliest is the earliest time of the next attempt.
	earliest events.Instant
	// over says that no attempt ran and the time of the step is over.
	over bool
	// long says that it is an attempt of a step with a heartbeat and more than one attempt.
	long bool
	// lost says that nobody knows of the child that made it.
	lost bool
}

// fails records a failure; attempt 0 failed before any work was sent.
func (a *sagas) fails(g *saga, f *events.Fact, b *events.StepFailed) string {
	s := g.steps[b.Step]
	switch {
	case s == nil || (b.Attempt == 0 && (s.running || s.over() || s.fans)):
		return "INV7: the failure of a step that did not wait"
	case b.Attempt > 0 && (!s.running || s.attempt != b.Attempt):
		return "INV7: the outcome of an attempt that does not run"
	}
	var quiet events.Instant
	if b.Attempt > 0 && b.Effect == events.EffectInDoubt {
		quiet = s.lastEnd().Add(a.w.cfg.Settings.Grace.Std())
	}
	if b.QuietAt != quiet {
		return "the time until which an attempt in doubt may act is wrong"
	}
	if b.Request != "" && !g.once(b.Request) {
		return "a request is judged twice"
	}
	s.running, g.quiet = false, max(g.quiet, quiet)
	s.touched = s.touched || (b.Attempt > 0 && b.Effect != events.EffectNone)
	if b.Attempt > 0 && b.Effect == events.EffectNone {
		s.childHadNoEffect()
	}
	if b.Signal != "" {
		if why := s.takes(g, b.Signal, b.Output); why != "" || !s.refuses(b.Output) || b.Effect != events.EffectNone {
			return why + "; a signal is refused that its workflow accepts, or its effect is wrong"
		}
		s.output = b.Output
		a.w.saw(sawSignalRefused)
	} else if b.Error.Class == events.ClassCheck || b.Output != nil {
		if !s.refuses(b.Output) || b.Effect == events.EffectNone || b.Effect == events.EffectDoneUnknown && s.epoch != f.Epoch && s.def.Undo != nil && !s.byChild() {
			return "a result is refused that its workflow accepts, or its effect is wrong"
		}
		s.output = b.Output
		a.w.saw(sawCheckFailed)
	}
	s.wait = nil
	x := failure{step: b.Step, class: b.Error.Class, verdict: b.Verdict, earliest: f.Time.Add(b.RetryAfter.Std())}
	x.long = s.def.Heartbeat > 0 && s.def.Retry.Attempts > 1
	x.lost, x.over = s.byChild() && b.Error.Code == "child_lost", s.child.late && b.Error.Class == events.ClassTimeout
	return a.judged(g, f, x)
}

func (a *sagas) timesOutIn(g *saga, f *events.Fact, b *events.Timeout) string {
	if s := g.steps[b.Step]; b.Attempt == 0 && (s == nil || s.wait == nil) {
		return a.lapses(g, f, b)
	}
	x := failure{step: b.Step, class: events.ClassTimeout, verdict: b.Verdict, earliest: f.Time, over: b.Attempt == 0}
	s := g.steps[b.Step]
	if b.Operation == events.Undo {
		if s != nil && b.CompleteBy != s.back.completeBy {
			return "an undo times out at another time than its complete-by time"
		}
		if why := a.doubts(s, f, b.QuietAt, true); why != "" {
			return why
		}
		return a.undoEnds(g, f, b.Attempt, x)
	}
	if b.Attempt == 0 {
		return a.givesUp(g, f, b, x)
	}
	quiet := b.CompleteBy.Add(a.w.cfg.Settings.Grace.Std())
	switch {
	case s == nil || !s.running || s.attempt != b.Attempt:
		return "INV7: the outcome of an attempt that does not run"
	case b.CompleteBy != s.completeBy:
		return "an attempt times out at another time than its complete-by time"
	case b.QuietAt != quiet:
		return "the grace of a timed-out attempt differs from its settings"
	}
	s.running, s.touched, g.quiet = false, true, max(g.quiet, quiet)
	return a.judged(g, f, x)
}

// judged compares the verdict about a do with the workflow, by the saga's own count of attempts.
func (a *sagas) judged(g *saga, f *events.Fact, x failure) string {
	s, v := g.steps[x.step], x.verdict
	cools := 0
	if s.def.CoolDown != nil {
		cools = s.def.CoolDown.Times
	}
	want := v.Action
	switch {
	case a.w.clients.toxic[f.Task] != "": // in some lives of a process, looking up the policy panics
	case x.lost:
		want = events.ActionPark
	case g.undoing:
		want = events.ActionUndo
	case x.over || s.startBy != 0 && v.At == 0 && strings.Contains(v.Reason, "could not start before"):
		want = g.timesOut(s)
	case x.uncounted(s.tries, s.attempt-s.earlier):
		want = events.ActionRetry
	case hopeless(x.class):
		want = g.lastly(s)
	case s.tries < s.def.Retry.Attempts:
		want = events.ActionRetry
	case s.coolDowns < cools:
		want = events.ActionCoolDown
	default:
		want = g.lastly(s)
	}
	s.child.lost = x.lost
	if v.Action != want {
		return "a failure is judged " + string(v.Action) + ", its workflow says " + string(want)
	}
	if v.At < x.earliest && (v.Action == events.ActionRetry || v.Action == events.ActionCoolDown) {
		return "an attempt is scheduled earlier than its agent asked for"
	}
	if s.startBy != 0 && v.At >= s.startBy {
		return "an attempt is scheduled for when its time is over"
	}
	if v.Uncounted != x.uncounted(s.tries, s.attempt-s.earlier) && v.Action == events.ActionRetry {
		return "an attempt that was made is not counted, or one that was not made is counted"
	}
	s.notBefore, s.askedAt = v.At, f.Time
	s.tries -= a.takenBack(v)
	s.failed = v.Action == events.ActionUndo || v.Action == events.ActionPark
	s.continued, s.queued = v.Action == events.ActionContinue, false
	switch v.Action {
	case events.ActionCoolDown:
		s.tries = 0
		s.coolDowns++
	case events.ActionUndo:
		return g.turns("a verdict")
	case events.ActionPark:
		if g.parkDue = !g.parked; g.parkDue {
			g.parkStep = x.step
		}
	}
	return ""
}

// uncounted says whether an attempt must not count, because its agent says that it did not try. A timeout may be forgiven too: the first
// of a step, if the owner believed that no instance of the agent was alive, and any, if no broker had acknowledged the request. So may an
// attempt with a heartbeat whose agent says that it stopped.
func (x *failure) uncounted(tries, attempt int) bool {
	forgiven := tries == attempt || strings.Contains(x.verdict.Reason, supervisor.UnsentReason)
	if x.long && x.class == events.ClassRetryable && strings.Contains(x.verdict.Reason, supervisor.StoppedReason) {
		return true
	}
	return x.class == events.ClassUnavailable || x.class == events.ClassTimeout && forgiven && x.verdict.Uncounted
}

func (a *sagas) takenBack(v events.Verdict) int {
	if !v.Uncounted {
		return 0
	}
	a.w.saw(sawUncounted)
	if strings.Contains(v.Reason, supervisor.StoppedReason) {
		a.w.saw(sawBrokenOff)
	}
	return 1
}

// refuses says whether the check of a step fails for an output. All checks of the simulation are alike.
func (s *sagaStep) refuses(output json.RawMessage) bool {
	var x struct {
		V      *int   `json:"v"`
		Signal string `json:"signal"`
	}
	if len(s.def.Wait) > 0 {
		return s.def.FailIf != "" && json.Unmarshal(output, &x) == nil && x.Signal == "stop"
	}
	return s.def.FailIf != "" && json.Unmarshal(output, &x) == nil && (x.V == nil || *x.V == 2) // the output of a child may have no v
}

// hopeless says whether another attempt cannot help.
func hopeless(c events.Class) bool {
	return c == events.ClassCheck || c == events.ClassPermanent || c == events.ClassExpression || c == events.ClassLimit
}

// lastly returns the action when no attempt is left: undo, if the step asks for it and the pivot allows it.
func (g *saga) lastly(s *sagaStep) events.Action {
	if s.item && !g.undoing && g.fans.tolerates(s.def.ID) {
		return events.ActionContinue
	}
	if string(s.def.Retry.Then) != string(events.ActionUndo) || g.parked {
		return events.ActionPark
	}
	for _, x := range g.steps {
		if x.def.Pivot && (x.running || x.touched) {
			return events.ActionPark
		}
	}
	return events.ActionUndo
}

func (a *sagas) undoFails(g *saga, f *events.Fact, b *events.CompensationFailed) string {
	if b.Request != "" && !g.once(b.Request) {
		return "a request is judged twice"
	}
	x := failure{step: b.Step, class: b.Error.Class, verdict: b.Verdict, earliest: f.Time.Add(b.RetryAfter.Std())}
	if s := g.steps[b.Step]; b.Attempt == 0 && s != nil && !s.undoRuns {
		return a.undoJudged(g, f, x)
	}
	effect := a.reported(f)
	_, _, _, input := f.Cause.Input() // otherwise a broker refused it
	if why := a.doubts(g.steps[b.Step], f, b.QuietAt, input && effect != events.EffectNone && effect != events.EffectDoneUnknown); why != "" {
		return why
	}
	return a.undoEnds(g, f, b.Attempt, x)
}

// reported returns the effect that the report says which is the cause of a fact, if one is.
func (a *sagas) reported(f *events.Fact) events.Effect {
	in, _, offset, ok := f.Cause.Input()
	if !ok {
		return ""
	}
	x, _ := a.p.inputs.Input(in, offset)
	return x.Report.Effect
}

// lastUndo is until when requests to undo a step may still land, and when the attempt began from which that is.
type lastUndo struct{ quiet, from events.Instant }

// doubts takes the end of the running attempt to undo a step, which may act until the given instant. It may in any case if it was sent in two
// epochs, or if nobody vouches for its end.
func (a *sagas) doubts(s *sagaStep, f *events.Fact, quietAt events.Instant, doubted bool) string {
	if s == nil {
		return "INV7: the outcome of an undo that does not run"
	}
	if s.undoneByChild() {
		if quietAt != 0 {
			return "the undo of a child is in doubt"
		}
		return ""
	}
	end := s.back.completeBy.Add(a.w.cfg.Settings.Grace.Std())
	if quietAt != 0 && quietAt != end || quietAt == 0 && (doubted || s.undoEpoch != f.Epoch) {
		return "the time until which an undo in doubt may act is wrong"
	}
	if quietAt > s.lastUndo.quiet {
		s.lastUndo = lastUndo{quietAt, s.back.startedAt}
	}
	return ""
}

// corrects takes a correction of the time.
func (x *lastUndo) corrects(to events.Instant) {
	x.quiet, x.from = moved(x.quiet, x.from, to), min(x.from, to)
}

func (a *sagas) undoEnds(g *saga, f *events.Fact, attempt int, x failure) string {
	s := g.steps[x.step]
	if s == nil || !s.undoRuns || s.undo != attempt {
		return "INV7: the outcome of an undo that does not run"
	}
	s.undoRuns = false
	return a.undoJudged(g, f, x)
}

// undoJudged compares the verdict about an undo with the workflow.
func (a *sagas) undoJudged(g *saga, f *events.Fact, x failure) string {
	s := g.steps[x.step]
	want := events.ActionPark
	late := s.back.startBy != 0 && strings.Contains(x.verdict.Reason, "could not start before")
	if !x.over && !late && x.uncounted(s.undoTries, s.undo-s.earlierUndos) || !x.over && !late && !hopeless(x.class) && s.undoTries < s.def.Undo.Retry.Attempts {
		want = events.ActionRetry
	}
	if a.w.clients.toxic[f.Task] == "" && x.verdict.Action != want {
		return "a failed undo is judged " + string(x.verdict.Action) + ", its workflow says " + string(want)
	}
	s.back.notBefore, s.back.askedAt = x.verdict.At, f.Time
	s.undoTries -= a.takenBack(x.verdict)
	s.undoFailed = x.verdict.Action != events.ActionRetry
	if s.undoFailed && !g.parked { // an undo of another item may have failed before
		g.parkDue, g.parkStep = true, x.step
	}
	if x.verdict.Action == events.ActionRetry && x.verdict.At < x.earliest {
		return "an undo is scheduled earlier than its agent asked for"
	}
	return ""
}
