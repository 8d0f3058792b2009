package sim

import (
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
)

// see counts the situations that an accepted fact shows, before it is folded.
func (p *partition) see(f *events.Fact, by *producer) {
	w := p.w
	t, _ := p.state.Task(f.Task)
	switch b := f.Body.(type) {
	case *events.PartitionClaimed:
		p.seeClaim(by)
	case *events.Submitted:
		if p.inputs.content[f.Task] != nil {
			w.saw(sawDuplicateSwept)
		}
		if p.sagas.cancelled[f.Task] {
			w.saw(sawHeldConsumed)
		}
	case *events.RequestHeld:
		if w.saw(sawHeld); b.Request.Kind == events.RequestSignal {
			w.saw(sawSignalHeld)
		}
	case *events.InputForwarded:
		w.saw(sawForwarded)
	case *events.InputRejected:
		w.seeRejected(b)
	case *events.TasksSwept:
		w.saw(sawSwept)
	case *events.StateHash:
		w.saw(sawStateHash)
	case *events.EffectFailed:
		w.seeEffectFailed(b)
	case *events.EffectsDelayed:
		if _, known := p.state.Partition.Delayed[b.Destination]; known {
			w.saw(sawDelayedFar)
		}
		w.saw(sawDelayed)
	case *events.EffectsCaughtUp:
		w.saw(sawCaughtUp)
	case *events.DeadlinePassed:
		if b.Action == events.DeadlineUndo {
			w.saw(sawDeadlineUndo)
		} else {
			w.saw(sawDeadlineAlert)
		}
	}
	if c := p.state.Partition.Carry; c != nil {
		seeDuring(p, c, f)
	}
	if t != nil {
		p.seeTask(f, t)
		w.seeByHand(f, t)
		p.seeUndo(f, t)
	}
	if w.now.Sub(begin) > 0 && f.Time.Sub(w.now) > time.Minute && by.time.moment(f.Time) > w.now.Add(time.Minute) {
		w.saw(sawLogAhead)
	}
}

func (p *partition) seeClaim(by *producer) {
	w := p.w
	if by.closed {
		w.saw(sawClaimLate)
	}
	if p.writer != nil && p.writer.slot != by.slot {
		w.saw(sawTakeOver)
		if old := p.writer.slot; old.owner != nil && old.owner.Status().Owning && old.tail != nil && old.tail.over {
			w.saw(sawLogDeposed)
		}
		for _, g := range p.sagas.byTask {
			for _, s := range g.steps {
				if s.running || s.undoRuns {
					w.saw(sawTakeOverBusy)
					return
				}
			}
		}
	}
	if w.owners(p) > 0 {
		w.saw(sawTwoOwners)
	}
}

// seeVoid counts the void records.
func (p *partition) seeVoid(f *events.Fact, by *producer) {
	p.w.saw(sawVoid)
	if _, ok := f.Body.(*events.PartitionClaimed); ok {
		p.w.saw(sawClaimRefused)
		if by.closed {
			p.w.saw(sawClaimLate)
		}
	} else if f.Epoch.N < p.epoch.N {
		p.w.saw(sawDeposedFact)
	}
}

// rejections are the situations that a rejection shows by its reason alone.
var rejections = map[string]situation{
	events.RejectUnreadable: sawUnreadable, events.RejectInvalid: sawInvalid, events.RejectUnknownWorkflow: sawNoWorkflow,
	events.RejectSchema: sawSchema, events.RejectTooLarge: sawTooLarge, events.RejectConflict: sawConflict,
	events.RejectRefused: sawRequestRefused, events.RejectExpired: sawHeldExpired, events.RejectLimit: sawHeldLimit,
	events.RejectEnded: sawLethalRejected,
}

func (w *World) seeRejected(b *events.InputRejected) {
	if s, ok := rejections[b.Reason]; ok {
		w.saw(s)
	}
	says := func(text string) bool { return strings.Contains(b.Detail, text) }
	switch {
	case b.Reason == events.RejectTooLarge && says("unpacks"):
		w.saw(sawUnpacked)
		if b.Last > 0 {
			w.saw(sawUnpackedBatch)
		}
	case b.Reason == events.RejectMisplaced && says("longer ago"):
		w.saw(sawForwardTooOld)
	case b.Reason == events.RejectMisplaced:
		w.saw(sawStillMisplaced)
	case b.Reason == events.RejectRefused && (says("pivot") || says("ended")):
		w.saw(sawCancelRefused)
	}
}

func (w *World) seeEffectFailed(b *events.EffectFailed) {
	switch b.Kind {
	case events.EffectWork:
		w.saw(sawWorkRefused)
		if b.CompensationFailed != nil {
			w.saw(sawUndoRefused)
		}
	case events.EffectForward:
		w.saw(sawForwardRefused)
	case events.EffectAlert:
		w.saw(sawAlertRefused)
	}
}

// seeTask counts what happens to a task.
func (p *partition) seeTask(f *events.Fact, t *events.Task) {
	w := p.w
	if t.NotBefore != 0 {
		seeEarly(w, f)
	}
	switch b := f.Body.(type) {
	case *events.StepCompleted:
		if t.State == events.TaskStateUndoing {
			w.saw(sawResultUndoing)
		}
		if s := t.Step(b.Step); s != nil && s.Pivot {
			w.saw(sawPivot)
		}
	case *events.StepFailed:
		p.seeFailed(f, b)
	case *events.Timeout:
		if w.saw(sawTimeout); b.Operation == events.Undo {
			w.saw(sawUndoTimeout)
		}
	case *events.StepSkipped:
		w.saw(sawSkipped)
	case *events.CancelRequested:
		p.seeTurned(t)
		if w.saw(sawCancel); t.State == events.TaskStateError {
			w.saw(sawCancelParked)
		}
	case *events.RequestRefused:
		w.saw(sawRefused)
	case *events.TaskPaused:
		if w.saw(sawPaused); t.State == events.TaskStateUndoing {
			w.saw(sawPausedUndoing)
		}
	case *events.TaskResumed:
		w.saw(sawResumed)
	case *events.TaskTerminated:
		w.saw(sawTerminated)
	case *events.TaskReopened:
		switch {
		case t.State == events.TaskStateError && t.ParkedFrom == events.TaskStateUndoing:
			w.saw(sawRetryUndo)
		case t.State == events.TaskStateError:
			w.saw(sawRetryParked)
		default:
			w.saw(sawRetryWaiting)
		}
	case *events.TaskUndone:
		w.saw(sawUndone)
	case *events.TaskReminded:
		w.saw(sawReminded)
	case *events.TaskParked:
		w.saw(sawParked)
		if t.State == events.TaskStateUndoing {
			w.saw(sawUndoParked)
		}
		if strings.Contains(b.Reason, "task_facts") {
			w.saw(sawFactLimit)
		}
		if strings.Contains(b.Reason, "output limit") {
			w.saw(sawOutputLimit)
		}
	}
}

func (p *partition) seeFailed(f *events.Fact, b *events.StepFailed) {
	w := p.w
	if b.Verdict.Action == events.ActionCoolDown {
		w.saw(sawCoolDown)
	}
	switch b.Error.Class {
	case events.ClassExpression:
		w.saw(sawExpression)
	case events.ClassLimit:
		if b.Attempt == 0 {
			w.saw(sawInputLimit)
		} else {
			w.saw(sawOutputLimit)
		}
	}
	if b.Effect == events.EffectNone && b.Attempt > 0 {
		w.saw(sawNoneBelieved)
		return
	}
	if in, _, o, ok := f.Cause.Input(); ok && in == events.Reports && o < p.inputs.reports.end() && p.inputs.reports.meta[o].Report.Effect == events.EffectNone {
		w.saw(sawNoneDoubted)
	}
}

func (p *partition) seeUndo(f *events.Fact, t *events.Task) {
	b, ok := f.Body.(*events.CompensationStarted)
	if !ok {
		return
	}
	if s := t.Step(b.Step); s != nil && s.Completion == 0 {
		p.w.saw(sawUndoUnknown)
	}
	if b.Attempt > 1 {
		p.w.saw(sawUndoRetried)
	}
}

// seePassed counts the kinds of inputs that led to no fact.
func (q *inputs) seePassed(m *meta) {
	w := q.w
	t, _ := q.p.state.Task(m.Task)
	switch m.Kind {
	case InputMarker:
		w.saw(sawMarker)
	case InputSubmission:
		w.saw(sawDuplicate)
	case InputRequest:
		w.saw(sawRequestTwice)
	case InputPermit:
		w.saw(sawPermitPassed)
	case InputTaskEnd, InputSchedule:
		w.saw(sawScheduleRepeat)
	case InputLimit:
		w.saw(sawLimitAskedTwice)
	case InputReport:
		g, r := q.p.sagas.byTask[m.Task], m.Report
		switch {
		case t == nil || t.State.Ended():
			w.saw(sawReportEnded)
		case g == nil || g.steps[r.Step] == nil || r.Attempt > g.steps[r.Step].attempt && r.Operation == events.Do:
			w.saw(sawReportStranger)
		default:
			if x := t.Step(r.Step); x != nil && x.Error != nil && x.Error.Class == events.ClassTimeout {
				w.saw(sawLateReport)
			}
			w.saw(sawReportTwice)
		}
	}
}
