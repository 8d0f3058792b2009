package events_test

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// namedLimits: the steps of two tasks share a limit of one. The attempt of the first is in doubt, and so is its undo; the second is paused while it
// waits, and asks again. The limit is raised, and in the end deleted.
func (w *scribe) namedLimits() {
	const limit, first, second = "limit/bank", "banked-1", "banked-2"
	w.write("", &events.LimitAdopted{Limit: limit, Offset: 20, Max: 1}, cause(events.CauseDefinition(20)))
	w.submit(first)
	w.submit(second)
	one := w.asksForStep(first, "charge", events.Do, true)
	two := w.asksForStep(second, "charge", events.Do, false)
	w.write(first, &events.PermitGranted{Limit: limit, Link: one})
	w.start(first, "charge", 1)
	w.write(second, events.AskStepPermit(w.task(second), "charge", events.Do, limit), cause(events.CauseTimer(second, 1, "charge", 1, events.TimerPermit)))
	w.write(second, &events.TaskPaused{Request: "n1"})
	w.write(second, events.UnneededPermits(w.task(second))[0])
	w.write("", &events.PermitsDecided{Limit: limit, Released: &two})
	w.hash1()
	w.write(first, &events.Timeout{Step: "charge", Operation: events.Do, Attempt: 1, CompleteBy: w.now, QuietAt: w.now.Add(9e9), Verdict: undo("attempts used up")})
	released := events.UnneededPermits(w.task(first))[0].(*events.PermitReleased)
	w.write(first, released)
	w.write("", &events.PermitsDecided{Limit: limit, Ending: released})
	w.write("", &events.LimitAdopted{Limit: limit, Offset: 21, Max: 2}, cause(events.CauseDefinition(21)))
	w.now = w.now.Add(10e9)
	back := w.asksForStep(first, "charge", events.Undo, true)
	w.write(first, &events.PermitGranted{Limit: limit, Link: back})
	w.write(first, &events.CompensationStarted{Step: "charge", Agent: "charge", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.hash1()
	w.write(first, &events.CompensationFailed{
		Step: "charge", Attempt: 1, Error: events.Error{Class: events.ClassPermanent}, Verdict: park("it cannot be undone"), QuietAt: w.now.Add(7e9),
	})
	released = events.UnneededPermits(w.task(first))[0].(*events.PermitReleased)
	w.write(first, &events.TaskParked{Step: "charge", Reason: "it cannot be undone"})
	w.write(first, released)
	w.write("", &events.PermitsDecided{Limit: limit, Ending: released})
	w.rates(limit)
	w.write("", &events.LimitAdopted{Limit: limit, Offset: 30}, cause(events.CauseDefinition(30)))
	w.now = w.now.Add(10e9)
	w.write("", &events.PermitsDecided{Limit: limit, Released: &one}, cause(events.CauseTimer(first, 1, "charge", 1, events.TimerPermit)))
	w.write("", &events.PermitsDecided{Limit: limit, Released: &back}, cause(events.CauseTimer(first, 1, "charge", 2, events.TimerPermit)))
	w.hash1()
	w.write(first, &events.TaskTerminated{Request: "n2", NotUndone: []string{"charge"}})
	w.write(second, &events.TaskTerminated{Request: "n3"})
}

// rates: permits are given at a rate, one of them a little early, and a new rate holds at once.
func (w *scribe) rates(limit string) {
	given := func(n int, wait time.Duration) {
		w.now = w.now.Add(wait)
		ask := &events.PermitAsked{Limit: limit, Link: events.Link{Task: "banked-3", Incarnation: "2-9f0c/3", Run: 1, N: n, Path: "charge", Operation: events.Do}}
		w.write("", &events.PermitsDecided{Limit: limit, Asked: ask, Granted: &ask.Link})
		w.write("", &events.PermitsDecided{Limit: limit, Released: &ask.Link})
	}
	rated := func(offset int64, most int, rate string) {
		w.write("", &events.LimitAdopted{Limit: limit, Offset: offset, Max: most, Rate: rate}, cause(events.CauseDefinition(offset)))
	}
	rated(22, 9, "7/s")
	given(1, 0)
	given(2, 100*time.Millisecond)
	given(3, 150*time.Millisecond)
	rated(23, 0, "30/h")
	given(4, time.Second)
	w.hash1()
	rated(24, 0, "100/s")
	given(5, 0)
	rated(25, 9, "")
}

// asksForStep writes that an attempt asks for a permit of the limit bank, and that the limit takes the ask.
func (w *scribe) asksForStep(id, step string, op events.Operation, granted bool) events.Link {
	ask := events.AskStepPermit(w.task(id), step, op, "limit/bank")
	w.write(id, ask)
	b := &events.PermitsDecided{Limit: ask.Limit, Asked: ask}
	if granted {
		b.Granted = &ask.Link
	}
	w.write("", b)
	return ask.Link
}
