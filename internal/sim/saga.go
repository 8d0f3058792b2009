package sim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// saga is the judge's own account of a task: the rules of docs/protocol.md, "Undo", written a second time and shorter.
// It uses the facts and the workflow, and shares no code with the fold or the plan.
type saga struct {
	def                    *scheduler.Definition
	input                  json.RawMessage
	ended, undoing, parked bool
	byHand                 bool // an operator decided about a step
	// run is the latest run, and rerun what is to run once more when it is undone. depth is how many ancestors it has.
	run, depth  int
	rerun       *events.TaskRerun
	pivotPassed bool
	// accepted is the offset of the fact that accepted it.
	accepted int64
	// requests are the judged requests.
	requests map[string]bool
	// parkedAt is when the task was last parked, reminders how often its alert was repeated since, and remindAt when the next one is due.
	parkedAt, remindAt events.Instant
	// paused says that an operator holds it. haltedAt is since when it is parked or paused.
	paused   bool
	haltedAt events.Instant
	// datedAt is when its deadline was set: when it was accepted, or reopened with a later one. toldAt is the time of its latest fact.
	datedAt, toldAt events.Instant
	// within is how long it had until its deadline when it could begin.
	within    time.Duration
	reminders int
	early     early
	soft      sagaSoft
	// parkDue says that a verdict asks for an operator, for the step parkStep.
	parkDue  bool
	parkStep string
	// quiet is the time after which no request of an attempt in doubt can land any more.
	quiet events.Instant
	// deadline counts on from haltedAt when the task is neither parked nor paused any more. expired says that it has passed.
	deadline events.Instant
	expired  bool
	// steps are those of its workflow, and the items of those that have any, by their paths.
	steps map[string]*sagaStep
	fans  FanOuts
	// kept are the signals that no step has taken.
	kept      []events.SignalReceived
	completed []string // in order
	// permit is nil if the task needs none, and limits are those of its steps.
	permit *sagaPermit
	limits sagaStepPermits
}

// sagas are the tasks of a partition.
type sagas struct {
	w      *World
	p      *partition
	log    *topic
	byTask map[string]*saga
	// cancelled are the tasks whose cancel was held when they were accepted: none of their steps starts.
	cancelled map[string]bool
}

type sagaStep struct {
	def   *scheduler.Step
	agent string
	// item says that it is an item of a fan-out, and fans that it is a fan-out whose items are not over.
	item, fans bool
	// known says that it has left not_started. run is its run; earlier and earlierUndos count the attempts before that.
	known                      bool
	run, earlier, earlierUndos int
	attempt                    int
	running                    bool
	done                       bool
	skipped                    bool
	// queued says that it must start in time and has not started, and continued that the task went on without it.
	queued, continued bool
	touched           bool // some attempt may have had an effect
	output            json.RawMessage
	undo              int // attempts
	undoRuns          bool
	undone            bool
	byUndo            string // the agent of the running undo
	// tries are the attempts since the last cool-down or retry by an operator.
	tries, coolDowns, undoTries int
	// undoFailed says that its undo failed and waits for an operator.
	undoFailed bool
	// failed says that its do failed and is not repeated. left says that an operator skipped its undo. doneByHand and undoneByHand
	// say that no agent vouches for its do, or for its undo.
	failed, left             bool
	doneByHand, undoneByHand bool
	// sagaTimes are those of its do, and back those of its undo.
	sagaTimes
	back sagaTimes
	// lastUndo is until when requests to undo it may still land, in any run.
	lastUndo
	// progress is the last one of any attempt.
	progress json.RawMessage
	// epoch is the epoch in which the latest attempt started, and undoEpoch that of the latest attempt to undo it.
	epoch, undoEpoch events.Epoch
	// wait is nil unless it waits, and nobody does it.
	wait  *sagaWait
	soft  sagaSoft
	child sagaChild
}

func newSaga(f *events.Fact, b *events.Submitted) *saga {
	g := &saga{run: 1, def: definitionOf(b.Hash), input: b.Input, deadline: b.Deadline, datedAt: f.Time, early: early{f.Time, b.NotBefore, b.Delay, f.Epoch}, steps: map[string]*sagaStep{}, requests: map[string]bool{}, permit: newSagaPermit(f, b)}
	g.within = max(0, b.Deadline.Sub(max(f.Time, b.NotBefore)))
	g.soft.begin(b.RemindAfter, max(f.Time, b.NotBefore))
	g.fans.Tells(f)
	if b.Parent != nil {
		g.depth = b.Parent.Depth
	}
	if g.def != nil {
		for i := range g.def.Steps {
			g.steps[g.def.Steps[i].ID] = &sagaStep{def: &g.def.Steps[i], run: 1}
		}
	}
	return g
}

// sagas checks a fact against the sagas, before it is folded.
func (a *sagas) judge(f *events.Fact) {
	if b, ok := f.Body.(*events.TasksSwept); ok {
		for _, id := range b.Tasks {
			delete(a.byTask, id)
		}
		return
	}
	body := f.Body
	switch b := body.(type) {
	case *events.RequestHeld, *events.InputRejected, *events.InputForwarded, *events.PartitionClaimed, *events.PermitReturned, *events.EntityCarried, *events.ChildRefused, *events.ChildAnswered, *events.ChildReturned, *events.ChildReleased:
		return
	case *events.Submitted:
		if a.byTask[f.Task] != nil {
			a.w.fail("INV1: task %q is accepted twice", f.Task)
		}
		a.byTask[f.Task] = newSaga(f, b)
		a.byTask[f.Task].accepted = a.log.end() - 1
		return
	case *events.EffectFailed:
		switch {
		case b.Failed != nil:
			body = b.Failed
		case b.CompensationFailed != nil:
			body = b.CompensationFailed
		default:
			return
		}
	}
	if f.Task == "" {
		return
	}
	g := a.byTask[f.Task]
	switch {
	case g == nil:
		a.w.fail("INV1: %s of task %q, which this partition does not have", body.Name(), f.Task)
	case g.ended && !afterEnd(body):
		a.w.fail("INV9: %s of task %q, which has ended", body.Name(), f.Task)
	default:
		if why := cmp.Or(g.takesPermit(f, body), a.tells(g, f, body), a.counts(g, f)); why != "" {
			a.w.fail("%s (%s of task %q)", why, body.Name(), f.Task)
		}
		g.toldAt = f.Time
	}
}

// tells adds the fact to the saga, or says which promise the fact breaks.
func (a *sagas) tells(g *saga, f *events.Fact, body events.Body) string {
	g.meets(body)
	if why, so := g.tellsByHand(a.w, f); so {
		return why
	}
	switch b := body.(type) {
	case *events.StepQueued:
		return a.queues(g, f, b)
	case *events.StepStarted:
		return a.startsStep(g, f, b)
	case *events.StepProgressed:
		return a.progresses(g, f, b)
	case *events.WaitStarted:
		return a.waits(g, f, b)
	case *events.FanOutStarted:
		return a.fansOut(g, f, b)
	case *events.StepCompleted:
		if b.Attempt == 0 {
			return a.wakes(g, f, b)
		}
		return a.completes(g, f, b)
	case *events.StepFailed:
		return a.fails(g, f, b)
	case *events.Timeout:
		return a.timesOutIn(g, f, b)
	case *events.StepSkipped:
		return g.skips(b)
	case *events.CompensationStarted:
		return a.startsUndo(g, f, b)
	case *events.Compensated:
		return a.undoes(g, f, b)
	case *events.CompensationFailed:
		return a.undoFails(g, f, b)
	case *events.PermitAsked, *events.PermitGranted, *events.PermitReleased, *events.PermitBlocked:
		return g.permits(f)
	case *events.SignalReceived:
		return g.keeps(a.w, b)
	case *events.CancelRequested, *events.RequestRefused, *events.TaskPaused, *events.TaskResumed, *events.TaskTerminated:
		return g.answers(f, body)
	case *events.NotBeforePassed, *events.DeadlinePassed:
		return a.passes(g, f)
	case *events.SoftLimitPassed:
		return a.passesSoft(g, f, b)
	case *events.TaskProcessed:
		return cmp.Or(g.releases(b.Release), g.ends(b))
	case *events.TaskUndone:
		return cmp.Or(g.leftSteps(b), g.releases(b.Release), g.endsUndone())
	case *events.TaskParked:
		if why := g.parks(f, b); why != "" {
			return why
		}
		g.reminders = 0
		a.remindsLater(g, f)
	case *events.TaskReminded:
		return a.reminds(g, f, b)
	case *events.TaskReopened:
		if !g.once(b.Request) {
			return "a request is judged twice"
		}
		g.reopens(f, b)
	case *events.TimeCorrected:
		a.corrects(g, b.To)
	case *events.TaskRerun, *events.RunBegun:
		return rerunning(a, g, f)
	case *events.ChildAsked, *events.ChildUndoRequested, *events.ChildrenReleased:
		return a.relative(g, f)
	}
	return ""
}

func (a *sagas) reminds(g *saga, f *events.Fact, b *events.TaskReminded) string {
	if !g.parked || b.Since != g.parkedAt || b.Reminder != g.reminders+1 || g.remindAt == 0 || f.Time < g.remindAt {
		return fmt.Sprintf("a reminder of %+v", *g)
	}
	g.reminders = b.Reminder
	a.remindsLater(g, f)
	return ""
}

func (a *sagas) startsStep(g *saga, f *events.Fact, b *events.StepStarted) string {
	s := g.steps[b.Step]
	switch {
	case s == nil:
		return "INV6: the workflow has no such step"
	case g.undoing || g.parked || g.parkDue || g.paused || g.early.until != 0:
		return "a step starts in a task that is undone, is parked or paused, must be parked, or waits for its time"
	case s.running || s.over() || s.wait != nil:
		return "INV7: a step that runs or has ended starts"
	case !g.permit.has():
		return "a step starts without the permit that its task needs"
	case g.deadline != 0 && f.Time >= g.deadline && !g.expired && !g.irrevocable():
		return "a step starts in a task that its deadline is about to undo"
	case b.Attempt != s.attempt+1 || events.RunOf(b.Run) != s.run:
		return "INV7: an attempt is numbered wrong"
	case f.Time < s.notBefore:
		return "a step starts again before its time"
	case f.Time < s.lastUndo.quiet:
		return "a step starts while an attempt to undo it may still act"
	case s.startBy != 0 && f.Time >= s.startBy:
		return "a step starts although its time is over"
	case s.def.StartWithin > 0 && !s.attempted() && !s.queued:
		return "a step that must start in time starts without being queued"
	case a.cancelled[f.Task]:
		return "a step starts although a cancel was held before the task was accepted"
	}
	for _, need := range s.def.Needs {
		if n := g.steps[need]; !n.over() {
			return "INV6: a step starts before what it needs has completed"
		}
	}
	if b.Call() != callOf(s.def, events.Do) || b.Pivot != s.def.Pivot || b.Undoable != (s.def.Undo != nil) || b.Heartbeat != s.def.Heartbeat || max(b.CompleteBy, b.CapBy) != s.endsAt(f, events.Do) || b.Heartbeat > 0 && b.CompleteBy != f.Time.Add(b.Heartbeat.Std()) {
		return "the start of a step differs from its workflow"
	}
	if why := cmp.Or(s.begins(f, b.StartBy, s.def.Retry.Within, s.attempt-s.earlier), s.beginsSoft(f, b.RemindAfter), s.startsChild(g, f, b)); why != "" {
		return why
	}
	if b.Heartbeat > 0 && !bytes.Equal(b.Progress, s.progress) {
		return "the start of a step is not given its last progress"
	}
	s.capBy, s.progressedAt = b.CapBy, 0
	s.output, s.queued, s.lastUndo = nil, false, lastUndo{}
	s.attempt, s.running, s.agent, s.startedAt, s.completeBy, s.epoch = b.Attempt, true, b.Agent, f.Time, b.CompleteBy, f.Epoch
	s.tries++
	return a.takesPlace(b.Agent, b.Input)
}

// takesPlace checks an agent's window and the limit of a step's input.
func (a *sagas) takesPlace(agent string, input json.RawMessage) string {
	n := 0
	for _, g := range a.byTask {
		for _, s := range g.steps {
			if s.running && s.agent == agent && agent != "" {
				n++
			}
			if s.undoRuns && s.byUndo == agent && agent != "" {
				n++
			}
		}
	}
	switch window := a.w.cfg.Window; {
	case n > window:
		return "an agent has more attempts than its window"
	case n == window:
		a.w.saw(sawWindowFull)
	}
	if len(input) > a.w.cfg.Settings.PayloadBytes {
		return "the input of a step is above its limit"
	}
	return ""
}

// sentAgain says whether an attempt that started before this epoch is running.
func (a *sagas) sentAgain(work *events.Work, now events.Epoch) bool {
	g := a.byTask[work.Task]
	if g == nil || work.Operation != events.Do {
		return false
	}
	s := g.steps[work.Step]
	return s != nil && s.running && s.attempt == work.Attempt && s.epoch != now
}

// completes records a success. If the attempt was sent in two epochs, or its agent is in doubt, a copy may still be carried out.
func (a *sagas) completes(g *saga, f *events.Fact, b *events.StepCompleted) string {
	s := g.steps[b.Step]
	if s == nil || !s.running || s.attempt != b.Attempt {
		return "INV7: the outcome of an attempt that does not run"
	}
	if s.refuses(b.Output) {
		return "a step completes with a result that its workflow refuses"
	}
	quiet := s.lastEnd().Add(a.w.cfg.Settings.Grace.Std())
	switch twice := s.epoch != f.Epoch && !s.byChild(); {
	case b.QuietAt != 0 && b.QuietAt != quiet, twice && s.def.Undo != nil && b.QuietAt == 0:
		return "the time until which a copy of a completed attempt may act is wrong"
	case b.QuietAt != 0 && !twice:
		a.w.saw(sawCompletedInDoubt)
	}
	g.quiet = max(g.quiet, b.QuietAt)
	s.running, s.done, s.touched, s.output = false, true, true, b.Output
	g.completed = append(g.completed, b.Step)
	g.pivotPassed = g.pivotPassed || s.def.Pivot
	return ""
}

func (g *saga) skips(b *events.StepSkipped) string {
	s := g.steps[b.Step]
	switch {
	case g.paused:
		return "a step is skipped in a paused task"
	case s == nil || s.running || s.done || s.continued || s.attempted() || s.wait != nil || s.fans || s.item:
		return "INV6: a step that was attempted is skipped"
	case s.def.If == "":
		return "INV6: a step without a condition is skipped"
	}
	var in struct {
		N     json.Number `json:"n"`
		Extra bool        `json:"extra"`
	}
	if err := json.Unmarshal(g.input, &in); err == nil && g.def.Workflow == "dag" && in.Extra {
		return "INV6: a step whose condition holds is skipped"
	}
	s.skipped = true
	return ""
}

// startsUndo checks that no attempt of the task runs, that the step has something to undo, and that it is the step's
// turn: steps of unknown outcome come first, then the completed ones in reverse order.
func (a *sagas) startsUndo(g *saga, f *events.Fact, b *events.CompensationStarted) string {
	own := g.steps[b.Step]
	switch {
	case own == nil || own.def.Undo == nil:
		return "the step has no undo"
	case !g.undoes(own) || g.parked || g.paused || own.undoFailed:
		return "an undo starts in a task that is not being undone, or must be parked"
	case own.undone || !own.touched:
		return "an undo that is not needed starts"
	case g.rerun != nil && !slices.Contains(redoneBy(g, g.rerun), b.Step):
		return "a step is undone that is not to run once more"
	case b.Attempt != own.undo+1 || events.RunOf(b.Run) != own.run:
		return "INV7: an attempt is numbered wrong"
	case b.Call() != callOf(own.def, events.Undo) || own.startsUndoOfChild(f, b) != "":
		return "the start of an undo differs from its workflow"
	case len(b.Output) > 0 && (own.skipped || !bytes.Equal(b.Output, own.output)), own.done && len(own.output) > 0 && (len(b.Output) == 0) != own.undoneByChild():
		return "an undo is given an output that differs from its step's"
	}
	if f.Time < own.back.notBefore {
		return "an undo starts again before its time"
	}
	if f.Time < g.quiet {
		return "an undo starts while an attempt of the task may still act"
	}
	if why := g.turn(own, b.Step); why != "" {
		return why
	}
	if own.back.startBy != 0 && f.Time >= own.back.startBy {
		return "an undo starts although its time is over"
	}
	if why := own.back.begins(f, b.StartBy, own.def.Undo.Retry.Within, own.undo-own.earlierUndos); why != "" {
		return why
	}
	own.undo, own.undoRuns, own.byUndo, own.back.startedAt, own.back.completeBy, own.undoEpoch = b.Attempt, true, b.Agent, f.Time, b.CompleteBy, f.Epoch
	own.undoTries++
	return a.takesPlace(b.Agent, b.Input)
}

// turn says why a step cannot be undone now because of the others, or "".
func (g *saga) turn(own *sagaStep, path string) string {
	if !g.undoing {
		return "" // an item whose failure is tolerated is undone beside whatever goes on
	}
	turn := slices.Index(g.completed, path)
	if own.undo > own.earlierUndos || own.back.askedAt != 0 { // it has begun, maybe for an earlier rerun that kept other steps
		turn = -1
	}
	for _, id := range slices.Sorted(maps.Keys(g.steps)) {
		s := g.steps[id]
		switch {
		case s.running || s.undoRuns && !s.beside(own):
			return "an undo starts while another attempt of the task runs"
		case s == own || s.def.Undo == nil || !s.touched || s.undone || g.rerun != nil && !slices.Contains(redoneBy(g, g.rerun), id):
		case s.beside(own) && s.undoBegan():
		case turn >= 0 && (!s.done || slices.Index(g.completed, id) > turn):
			return "an undo starts before its turn"
		}
	}
	return ""
}
