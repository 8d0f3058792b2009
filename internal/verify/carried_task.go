package verify

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// storyOf returns the story of a task as its carried rows give it.
func storyOf(p *partition, t *events.Task, at Place) *story {
	s := &story{
		id: t.ID, incarnation: t.Incarnation, workflow: t.Workflow, def: p.defs[t.Definition], began: t.ScheduleBegan,
		accepted: -1, at: at.Offset, time: t.UpdatedAt, number: p.accepted, submittedAt: t.SubmittedAt,
		deadline: t.Deadline, deadlineWithin: t.DeadlineWithin.Std(), early: early{t.NotBefore, t.Delay}, soft: soft{t.SoftAt, t.SoftFrom},
		expired: t.DeadlinePassed, back: t.Undoing(), parked: t.State == events.TaskStateError, parkDue: t.ParkDue != "", parkedAt: t.ParkedAt,
		paused: t.Paused != nil, haltedAt: t.HaltedAt, reopenedAt: t.ReopenedAt, reminders: t.Reminders, remindAt: t.RemindAt, quiet: t.QuietAt,
		completed: t.Completions, cancelHeld: len(t.Held) > 0, run: t.Run, requests: map[string]bool{},
	}
	if s.def == nil && t.State == events.TaskStateRejected {
		s.def = &definition{}
	}
	if s.def == nil {
		p.book.add(Finding{Check: CheckAttempts, Kind: "definition", Place: at, Task: t.ID, What: fmt.Sprintf("the task is carried with the definition %s of workflow %s, which the partition does not have", t.Definition, t.Workflow)})
		s.def = &definition{}
	}
	byHand := false // an operator completed something, and nothing says what
	for _, r := range t.Requests {
		s.requests[r.ID] = true
		byHand = byHand || r.Verb == events.RequestComplete && r.Refused == ""
	}
	for _, k := range t.Kept {
		s.kept = append(s.kept, kept{k.Request, k.Signal, k.Payload})
	}
	if t.Rerun != nil {
		s.again = &again{t.Rerun.Steps}
	}
	carriedPermits(s, t)
	for _, e := range t.Steps {
		triedIn(s, e)
		carriedStep(p, s, e, byHand)
	}
	switch t.State {
	case events.TaskStateProcessed:
		s.end = events.NameTaskProcessed
	case events.TaskStateUndone:
		s.end, s.back = events.NameTaskUndone, true
	case events.TaskStateTerminated:
		s.end = events.NameTaskTerminated
	case events.TaskStateRejected:
		s.end = events.NameChildRefused
	}
	if x := t.Parent; x != nil {
		s.parent, s.asked = &events.ParentLink{Link: x.Link, Depth: x.Depth, Detach: x.Detach}, x.Undo
	}
	return s
}

func carriedPermits(s *story, t *events.Task) {
	if x := t.Permit; x != nil {
		s.permit = &permit{Concurrency: x.Concurrency, n: x.N, asked: x.State == events.PermitStateAsked, granted: x.State == events.PermitStateGranted}
	}
	s.limits.links = t.StepLinks
	for _, x := range t.StepPermits {
		if s.limits.open == nil {
			s.limits.open = map[attemptOf]*stepPermit{}
		}
		s.limits.open[attemptOf{x.Path, x.Operation}] = &stepPermit{limit: x.Limit, n: x.N, granted: x.State == events.PermitStateGranted, used: x.Used, quiet: x.QuietAt}
	}
}

// carriedStep adds a step.
func carriedStep(p *partition, s *story, e *events.Step, byHand bool) {
	if e.Left || e.UndoQuietAt != 0 {
		*afterUndosOf(s, e.Path) = afterUndos{e.Left, e.UndoQuietAt, e.UndoQuietFrom}
	}
	if e.Run > 1 {
		if s.earlier == nil {
			s.earlier = map[string]earlier{}
		}
		s.earlier[e.Path] = earlier{e.EarlierAttempts, e.EarlierUndos}
	}
	if e.State == events.StepStateNotStarted {
		return // an item of a step that runs once more
	}
	waits := e.State == events.StepStateWaiting && e.Fan == nil
	again := e.RetryAt != 0 && e.EndedAt >= e.TimedFrom // it failed before its start since it was queued
	queued := waits && e.StartBy != 0 && !e.Attempted() && e.Wait == nil && !again
	halted := e.State == events.StepStateFailed && e.Error == nil && e.StartedAt == 0 && e.TimedFrom == 0
	if (waits || halted) && e.Run > 1 && !e.Attempted() && e.Wait == nil && e.Fan == nil && e.RetryAt == 0 && !queued {
		return // it runs once more, and has not begun yet, or had not when the task turned back
	}
	st := &step{
		id: e.Path, run: events.RunOf(e.Run), pivot: e.Pivot, undoable: e.Undoable, touched: e.Touched, completion: e.Completion,
		done: e.Completion > 0, skipped: e.State == events.StepStateSkipped, continued: e.Continued, queued: queued,
		failed: e.Failed(), undone: e.State == events.StepStateUndone, undoFailed: e.State == events.StepStateUndoFailed, soft: soft{e.SoftAt, e.SoftFrom},
	}
	st.do = work{
		agent: e.Agent, attempts: e.Attempt, earlier: e.EarlierAttempts, running: e.State == events.StepStateRunning, waiting: waits && e.Wait == nil && !queued,
		started: -1, position: startedIn(p, e.StartedAt), startedAt: e.StartedAt, completeBy: e.CompleteBy, heartbeat: e.Heartbeat, capBy: e.CapBy,
		retryAt: e.RetryAt, askedAt: e.EndedAt, startBy: e.StartBy, timedFrom: e.TimedFrom,
		waitsFor: events.WaitingAgain(e.Error, e.Tries == 0 && e.CoolDowns > 0),
	}
	if e.ProgressedAt > e.StartedAt || e.ProgressedAt == e.StartedAt && e.CompleteBy > e.StartedAt.Add(e.Heartbeat.Std()) {
		st.do.progressedAt = e.ProgressedAt
	}
	st.undo = work{attempts: e.EarlierUndos, earlier: e.EarlierUndos}
	if u := e.Undo; u != nil {
		st.undo = work{
			agent: u.Agent, attempts: u.Attempt, earlier: e.EarlierUndos, running: u.State == events.StepStateRunning, waiting: u.State == events.StepStateWaiting,
			started: -1, position: startedIn(p, u.StartedAt), startedAt: u.StartedAt, completeBy: u.CompleteBy, retryAt: u.RetryAt, askedAt: u.EndedAt,
			startBy: u.StartBy, timedFrom: u.TimedFrom, waitsFor: events.WaitingAgain(u.Error, false),
		}
		if st.undone && !u.Skipped && !byHand {
			st.undoneAt = u.EndedAt
		}
	}
	if st.done && e.Attempted() && !byHand {
		st.doneAt = e.EndedAt
	}
	if w := e.Wait; w != nil && waits {
		st.wait = &wait{since: e.StartedAt, until: w.Until, within: w.Within, signals: w.Signals}
	}
	st.given = givenIn(e)
	st.do.child, st.undo.child = e.DoneByChild(events.Do), e.DoneByChild(events.Undo)
	st.do.cancelled = e.ByChild != nil && e.ByChild.Cancelled != ""
	if x := e.Fan; x != nil {
		st.items = &items{count: x.Count, tolerate: x.Tolerate}
	}
	s.add(st)
	if st.of != nil && st.continued {
		goesOnWithout(s, st, e.Error != nil && e.Error.Class == events.ClassTimeout)
	}
	followItem(s, st)
}

// givenIn returns the inputs that an operator gave.
func givenIn(e *events.Step) map[events.Operation][]byte {
	given := map[events.Operation][]byte{}
	if len(e.With) > 0 {
		given[events.Do] = e.With
	}
	if e.Undo != nil && len(e.Undo.With) > 0 {
		given[events.Undo] = e.Undo.With
	}
	return given
}

// startedIn returns the epoch in which an attempt began that began before the log does: the one in which that is, or an earlier one.
func startedIn(p *partition, at events.Instant) (pos events.Position) {
	if c := p.cuts[p.number]; c != nil && at > c.since {
		pos.Epoch = c.epoch
	}
	return pos
}

// adopt lets a story that begins with carried rows go on.
func adopt(p *partition, t *events.Task, s *story, at Place) {
	p.count.Carried++
	p.known[digestOf(t.ID)] = accepted{content: contentOf(t.Content), ended: t.EndedAt, remember: t.RememberFor.Std(), scheduled: t.Schedule != "" || t.Parent != nil, tries: triesOf(t), never: t.State == events.TaskStateRejected}.ofCarried(t.Parent)
	carriedRelatives(p, s, t, at)
	p.acks.carried(t.ID)
	if l := p.cfg.Ledgers; l != nil { // calls of earlier runs were compared when these ended
		for _, e := range t.Steps {
			for run := 1; run < events.RunOf(e.Run); run++ {
				w := events.Work{Task: t.ID, Ticket: t.Incarnation, Run: run, Step: e.Path}
				l.of(w.Key(p.id, events.Do))
				l.of(w.Key(p.id, events.Undo))
			}
		}
	}
	switch {
	case s.end == "":
		p.live[t.ID] = s
	case p.reruns[t.ID]:
		p.ended[t.ID] = s
	default:
		p.ledgerTask(s, at)
	}
}
