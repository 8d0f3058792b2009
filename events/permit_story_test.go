package events_test

import "github.com/sagalog/sagalog/events"

// permits: two tasks share a limit of one. The first gets the permit, gives it back while it is parked, and asks again; the second is more
// urgent than a third, and is undone while its attempt is in doubt, so that its permit ends later. The third has ended when its grant comes.
func (w *scribe) permits() {
	const limit, first, second, third = "concurrency/drone-delivery/c-1", "keyed-1", "keyed-2", "keyed-3"
	for i, id := range []string{first, second, third} {
		w.write(id, &events.Submitted{
			Workflow: "drone-delivery", Version: 1, Hash: "d1", Content: "c" + id, Priority: []int{0, 3, 0}[i], FairBy: []string{"", "acme", "north \u2713"}[i],
			Concurrency: &events.Concurrency{Limit: limit, Max: 1, Parked: events.PermitRelease},
		})
	}
	w.asks(first, true)
	w.asks(second, false)
	w.asks(third, false)
	w.write(first, &events.PermitGranted{Limit: limit, Link: w.link(first)})
	w.write(second, events.AskPermit(w.task(second)), cause(events.CauseTimer(second, 1, "", 0, events.TimerPermit)))
	w.start(first, "account", 1)
	w.fail(first, "account", 1, park("attempts used up"))
	w.write(first, &events.TaskParked{Step: "account", Reason: "attempts used up"})
	w.write(first, events.OpenPermit(w.task(first)))
	one, two, three := events.Link{Task: first, Incarnation: w.task(first).Incarnation, Run: 1, N: 1}, w.link(second), w.link(third)
	w.write("", &events.PermitsDecided{Limit: limit, Released: &one, Granted: &two})
	w.write(second, &events.PermitGranted{Limit: limit, Link: two})
	w.blocks(second, two)
	w.write(first, &events.TaskReopened{Request: "k1", Steps: []string{"account"}})
	w.asks(first, false)
	w.start(second, "account", 1)
	w.write(second, &events.Timeout{Step: "account", Operation: events.Do, Attempt: 1, CompleteBy: w.now, QuietAt: w.now.Add(9e9), Verdict: undo("attempts used up")})
	w.write("", &events.LimitPaused{Limit: limit, Request: "k4", Reason: "the bank is closed", By: "ada"})
	w.write(second, &events.TaskTerminated{Request: "k2", Release: events.OpenPermit(w.task(second))})
	w.write("", &events.PermitsDecided{Limit: limit, Ending: &events.PermitReleased{Limit: limit, Link: two, QuietAt: w.now.Add(9e9)}})
	w.hash1()
	w.write("", &events.LimitResumed{Limit: limit, Request: "k5", By: "ada"})
	w.now = w.now.Add(10e9)
	w.write("", &events.PermitsDecided{Limit: limit, Released: &two, Granted: &three}, cause(events.CauseTimer(second, 1, "", 1, events.TimerPermit)))
	w.write(third, &events.CancelRequested{Request: "k3"})
	w.write(third, &events.TaskUndone{Reason: "cancelled", Release: events.OpenPermit(w.task(third))})
	w.write(third, &events.PermitReturned{Limit: limit, Link: three})
	again := w.link(first)
	w.write("", &events.PermitsDecided{Limit: limit, Released: &three, Granted: &again})
	w.write(first, &events.PermitGranted{Limit: limit, Link: again})
	w.hash1()
	w.start(first, "account", 2)
	w.complete(first, "account", 2)
	w.write(first, &events.TaskProcessed{Release: events.OpenPermit(w.task(first))})
	w.write("", &events.PermitsDecided{Limit: limit, Released: &again})
}

// blocks writes that a task which has a permit is parked for long while others wait.
func (w *scribe) blocks(id string, link events.Link) {
	w.write(id, &events.TaskParked{Reason: "the output cannot be read"})
	since := w.task(id).ParkedAt
	w.now = since.Add(events.BlocksAfter)
	w.write("", &events.PermitsDecided{Limit: w.task(id).Permit.Limit, Granted: &link, Waiting: 1})
	w.write(id, &events.PermitBlocked{Limit: w.task(id).Permit.Limit, Link: link, Waiting: 1, Since: since})
	w.hash1()
	w.write(id, &events.TaskReopened{Request: "k6"})
}

func (w *scribe) link(id string) events.Link {
	t := w.task(id)
	return events.PermitLink(t, t.Permit.N)
}

// asks writes that the task asks for its permit, and that the limit takes the ask.
func (w *scribe) asks(id string, granted bool) {
	ask := events.AskPermit(w.task(id))
	w.write(id, ask)
	b := &events.PermitsDecided{Limit: ask.Limit, Asked: ask}
	if granted {
		b.Granted = &ask.Link
	}
	w.write("", b)
}
