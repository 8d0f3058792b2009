package events_test

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// family writes what parents and children do to each other.
type family struct{ *scribe }

// try begins an attempt of a step that a child does, and returns the call and the link.
func (w family) try(parent, path string, c events.ChildCall) events.ParentLink {
	w.t.Helper()
	attempt := 1
	if s := w.task(parent).Step(path); s != nil {
		attempt = s.Attempt + 1
	}
	c.Task, c.Depth = events.ChildID(parent, path, "", attempt), events.Depth(w.task(parent))+1
	w.write(parent, &events.StepStarted{Step: path, Attempt: attempt, Input: raw(`{"n":1}`), Undoable: true, Child: &c})
	return events.ParentLink{Link: events.ChildLink(w.task(parent), path, events.Do, attempt), Depth: c.Depth, Detach: c.Detach}
}

// born accepts the child of a try, which is remembered for a day.
func (w family) born(id string, p events.ParentLink) {
	w.t.Helper()
	w.write(id, &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Content: "c-" + id, RememberFor: events.Duration(24 * time.Hour), RemindAfter: 3600e9, Parent: &p})
}

// ends writes a fact that ends a task, with all that others learn from it.
func (w family) ends(id string, b events.Body) {
	w.t.Helper()
	events.End(w.task(id), b)
	w.write(id, b)
}

// undoes begins an attempt to undo a step that is done by the child itself, and returns its link.
func (w family) undoes(parent, path string) events.Link {
	w.t.Helper()
	s := w.task(parent).Step(path)
	n := s.EarlierUndos + 1
	if s.Undo != nil {
		n = s.Undo.Attempt + 1
	}
	w.write(parent, &events.CompensationStarted{Step: path, Attempt: n, Child: &events.ChildCall{Task: s.ChildToUndo()}})
	return events.ChildLink(w.task(parent), path, events.Undo, n)
}

// children: a child does a step, another one is refused, and the next try of that step is asked to turn back. So the first child is undone,
// although it has ended. When the parent is to be forgotten it releases them all.
func (w *scribe) children() {
	const parent, hotel, flight = "trip-1", "trip-1/hotel", "trip-1/flight"
	f := family{w}
	w.submit(parent)
	first := f.try(parent, "hotel", events.ChildCall{Workflow: "hotel", Version: 2, Priority: 3, Labels: map[string]string{"tier": "gold", "a": "b"}, Deadline: "10m"})
	f.born(hotel, first)
	w.write(parent, events.AskChild(w.task(parent), w.task(parent).Step("hotel"), events.Do, "", false), cause(events.CauseTimer(parent, 1, "hotel", 1, events.TimerChild)))
	w.start(hotel, "only", 1)
	w.complete(hotel, "only", 1)
	f.ends(hotel, &events.TaskProcessed{Output: raw(`{"room":7}`)})
	w.write(parent, &events.StepCompleted{Step: "hotel", Attempt: 1, Output: raw(`{"room":7}`)}, fromInput(events.Reports, 70))
	refused := f.try(parent, "flight", events.ChildCall{Workflow: "flight"})
	w.write(flight, &events.ChildRefused{
		Parent: refused, Workflow: "flight", Content: "c-f", Reason: events.RejectUnknownWorkflow, Detail: "no workflow has this name", RememberFor: events.Duration(time.Hour),
	}, fromInput(events.Submissions, 70))
	again, _ := events.AnswerAgain(w.task(flight), refused.Link)
	w.write(flight, &events.ChildAnswered{Answer: again})
	w.write(parent, failure("flight", 1, retryAt(w.now.Add(1e9))))
	second := f.try(parent, "flight", events.ChildCall{Workflow: "flight"})
	f.born(flight+"~2", second)
	w.start(flight+"~2", "only", 1)
	w.write(parent, events.AskChild(w.task(parent), w.task(parent).Step("flight"), events.Do, "the time of its step is over", true))
	w.write(flight+"~2", &events.CancelRequested{Reason: "the time of its step is over", By: parent})
	w.fail(flight+"~2", "only", 1, undo("cancelled"))
	w.write(flight+"~2", &events.CompensationStarted{Step: "only", Agent: "only", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write(flight+"~2", &events.Compensated{Step: "only", Attempt: 1})
	f.ends(flight+"~2", &events.TaskUndone{Reason: "cancelled"})
	w.write(parent, &events.StepFailed{Step: "flight", Attempt: 2, Effect: events.EffectNone, Verdict: undo("attempts used up"), Error: events.Error{Class: events.ClassPermanent, Code: "child_undone", Message: "it was undone"}})
	w.hash1()
	link := f.undoes(parent, "hotel")
	w.write(hotel, &events.ChildUndoRequested{Link: link, Reason: "attempts used up"}, fromInput(events.Submissions, 71))
	w.write(parent, events.AskChild(w.task(parent), w.task(parent).Step("hotel"), events.Undo, "", false))
	w.write(hotel, &events.CompensationStarted{Step: "only", Agent: "only", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write(hotel, &events.Compensated{Step: "only", Attempt: 1})
	f.ends(hotel, &events.TaskUndone{Reason: "attempts used up"})
	w.write(parent, &events.Compensated{Step: "hotel", Attempt: 1})
	f.ends(parent, &events.TaskUndone{Reason: "attempts used up"})
	release := events.ReleaseChildren(w.task(parent))
	w.write(parent, release, cause(events.CauseTimer(parent, 1, "", 0, events.TimerHorizon)))
	for _, c := range release.Children[:2] {
		w.write(c.Child, &events.ChildReleased{Link: c.Link})
	}
	w.write("", &events.TasksSwept{Tasks: []string{parent, hotel, flight}, EndedBefore: w.now, ScheduledForgottenBefore: w.now})
	repeated, _ := events.AnswerAgain(w.task(flight+"~2"), second.Link)
	w.write(flight+"~2", &events.ChildAnswered{Answer: repeated}, cause(events.CauseTimer(flight+"~2", 1, "", 0, events.TimerHorizon)))
	w.write(parent, &events.ChildReturned{ChildRelease: release.Children[2]})
	w.write(flight+"~2", &events.ChildReleased{Link: second.Link})
	w.write(hotel, &events.ChildAnswered{Answer: events.ChildAnswer{Child: hotel, Link: link, State: events.ChildLost, Code: events.RejectLost, Reason: "the task is not known"}})
	w.refusals()
}

// refusals: a detached child says that it was accepted, another is terminated and does not undo itself, and one that nobody knows is lost. The
// steps run once more, and one of them is skipped then. A child is asked to undo itself that an operator holds while it does.
func (w *scribe) refusals() {
	const parent, note, car, held = "trip-2", "trip-2/note", "trip-2/car", "trip-2/train"
	f := family{w}
	w.submit(parent)
	detached := f.try(parent, "note", events.ChildCall{Workflow: "note", Detach: true})
	f.born(note, detached)
	accepted, _ := events.AnswerAgain(w.task(note), detached.Link)
	w.write(note, &events.ChildAnswered{Answer: accepted})
	w.write(parent, &events.StepCompleted{Step: "note", Attempt: 1, Output: raw(`{"id":"trip-2/note"}`)})
	ended := f.try(parent, "car", events.ChildCall{Workflow: "car"})
	f.born(car, ended)
	stranger := events.ChildAnswer{Child: car, Link: events.ChildLink(w.task(parent), "bus", events.Do, 1), State: events.ChildRejected, Code: events.RejectConflict, Reason: "another task has its ID"}
	w.write(car, &events.ChildAnswered{Answer: stranger})
	f.ends(car, &events.TaskTerminated{Request: "t1"})
	w.write(parent, failure("car", 1, retryAt(w.now.Add(1e9))))
	lost := f.try(parent, "car", events.ChildCall{Workflow: "car"})
	w.write(car+"~2", &events.ChildRefused{Parent: events.ParentLink{Link: lost.Link}, Reason: events.RejectLost, Detail: "the task is not known", RememberFor: events.Duration(time.Hour)})
	w.write(parent, failure("car", 2, park("it is not known any more")))
	w.write(parent, &events.TaskParked{Step: "car", Reason: "it is not known any more"})
	other := f.parked(parent, held)
	w.write(parent, &events.TaskRerun{Request: "t2", Steps: []string{"note", "car"}})
	link := f.undoes(parent, "car")
	w.write(car, &events.ChildAnswered{Answer: events.ChildAnswer{Child: car, Link: link, State: events.ChildRefuses, Code: "child_terminated", Reason: "it was terminated"}})
	w.write(parent, &events.CompensationFailed{Step: "car", Attempt: 1, Verdict: park("no"), Error: events.Error{Class: events.ClassPermanent, Message: "no"}})
	w.write(parent, &events.StepSkipped{Step: "car", Why: events.SkipOperator, Left: true, Operator: events.Operator{Request: "t3"}})
	w.write(parent, &events.CompensationStarted{Step: "note", Agent: "eraser", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write(parent, &events.Compensated{Step: "note", Attempt: 1})
	w.write(parent, &events.RunBegun{Run: 2})
	w.write(parent, &events.StepSkipped{Step: "note", Why: events.SkipCondition})
	w.write(car, &events.ChildAnswered{Answer: events.ChildAnswer{Child: car, Link: link, State: events.ChildRefuses, Reason: "it was terminated"}})
	w.write(held, &events.ChildUndoRequested{Link: other})
}

// parked holds the undo of a child, and returns the link by which its parent asks for it.
func (w family) parked(parent, id string) events.Link {
	l := events.Link{Task: parent, Incarnation: w.task(parent).Incarnation, Run: 1, Path: "train", Operation: events.Do, N: 1}
	w.write(id, &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Content: "c", Deadline: w.now.Add(time.Hour), Parent: &events.ParentLink{Link: l, Depth: 1}})
	w.start(id, "only", 1)
	w.write(id, &events.CancelRequested{Request: "u1"})
	w.write(id, &events.TaskPaused{Request: "u2"})
	l.Operation, l.N = events.Undo, 2
	return l
}

// early writes a parent and two children while the clock is ahead: one of them runs, and the other has ended. It returns the tasks whose time is
// to be corrected, and what follows when it is.
func (w *scribe) early() (live []string, after func()) {
	const parent, runs, ended = "trip-4", "trip-4/a", "trip-4/b"
	f := family{w}
	w.submit(parent)
	detached := f.try(parent, "a", events.ChildCall{Workflow: "w", Detach: true})
	f.born(runs, detached)
	accepted, _ := events.AnswerAgain(w.task(runs), detached.Link)
	w.write(runs, &events.ChildAnswered{Answer: accepted})
	f.born(ended, f.try(parent, "b", events.ChildCall{Workflow: "w"}))
	w.start(ended, "only", 1)
	w.write(ended, &events.StepCompleted{Step: "only", Attempt: 1, QuietAt: w.now.Add(9e9)})
	f.ends(ended, &events.TaskProcessed{})
	w.complete(parent, "b", 1)
	return []string{parent, runs}, func() {
		w.write(parent, &events.CancelRequested{Request: "v1"})
		w.write(ended, &events.ChildUndoRequested{Link: f.undoes(parent, "b")})
		w.write(parent, events.CancelChildren(w.task(parent))[0])
	}
}
