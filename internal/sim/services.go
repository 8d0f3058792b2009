package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// service is the remote service behind an agent. The zero value is a kind one: it carries out a do once for each idempotency key,
// refuses a do after its undo, undoes nothing with success, and never forgets a key. The others are just as kind while the clock
// of a node is ahead of the world's, because then no rule bounds how long a request is under way.
type service struct {
	// bare: it knows nothing of undos that came before their do, and carries the do out.
	bare bool
	// strict: an undo that finds nothing is answered "not found", and leaves no trace.
	strict bool
	// replays: it repeats its first answer to a key that it has seen, however long ago, and does nothing.
	replays bool
	// memory is how long it refuses a do after its undo; with 0 it never forgets.
	memory time.Duration
}

// unkind says whether the service differs from the kind one.
func (s service) unkind() bool { return s != service{} }

// drawServices gives each agent a service.
func drawServices(dice *rand.Rand, unkind float64) map[string]service {
	list := map[string]service{}
	for _, agent := range everyAgent {
		s := service{
			bare: dice.IntN(2) == 0, strict: dice.IntN(2) == 0, replays: dice.IntN(2) == 0,
			memory: time.Duration(dice.IntN(4)) * 400 * time.Millisecond,
		}
		if dice.Float64() >= unkind {
			s = service{}
		}
		list[agent] = s
	}
	return list
}

// effectLedger holds the changes of one step of one task at its service.
type effectLedger struct {
	applied, undone bool
	undoneAt        events.Instant
	// done says that the do was ever carried out.
	done bool
	// requests counts the requests for each attempt of the do that reached an agent.
	requests map[int]int
	// lied says that a report called a do completed although it may not have been carried out.
	lied bool
}

func (l *effectLedger) do() { l.applied, l.done = true, true }

func (a *agents) entry(key string) *effectLedger {
	l := a.ledger[key]
	if l == nil {
		l = &effectLedger{requests: map[int]int{}}
		a.ledger[key] = l
	}
	return l
}

// serviceOf returns the service that a request reaches.
func (a *agents) serviceOf(work *events.Work) service {
	if !a.w.clocks.hold() {
		return service{}
	}
	return a.services[work.Agent]
}

// startsUntil returns the time after which a request is not begun. A kind service does no harm with a later one; for the others a
// request is over when its complete-by time and the grace have passed.
func (a *agents) startsUntil(work *events.Work) events.Instant {
	if a.serviceOf(work).unkind() {
		return work.CompleteBy.Add(a.w.cfg.Settings.Grace.Std())
	}
	return work.CompleteBy.Add(3 * time.Second)
}

// serve makes the service answer a request, given the outcome that was drawn, and returns the outcome that the agent sees.
func (a *agents) serve(l *effectLedger, work *events.Work, f outcome) outcome {
	s := a.serviceOf(work)
	if work.Operation == events.Undo {
		return a.serveUndo(l, work, f)
	}
	if s.replays && slices.ContainsFunc(a.reported[work.Task], func(d delivery) bool { return d.work.Step == work.Step && d.work.Ticket != work.Ticket }) {
		a.w.saw(sawReplayed)
	}
	switch {
	case l.undone && s.replays && f == outcomeDone:
		return f
	case l.undone && a.refuses(s, l, work):
		return outcomePermanentUnknown
	case l.applied && (f == outcomeFailedNone || f == outcomePermanentNone || f == outcomeNotMade):
		f = outcomeDone // the service answers that it has done it
	}
	if a.does(f) {
		l.do()
	}
	if f == outcomeFailedDoubt || f == outcomePermanentDoubt || f == outcomeSilent && s.unkind() {
		a.landLater(l, work)
	}
	return f
}

// refuses says whether the service refuses a do after its undo.
func (a *agents) refuses(s service, l *effectLedger, work *events.Work) bool {
	switch {
	case !s.bare && (s.memory == 0 || a.w.now < l.undoneAt.Add(s.memory)):
		return true
	case l.copied(work.Attempt):
		a.w.saw(sawCopyAfterUndo)
		return true
	}
	return false
}

// copied says whether an attempt reached agents more than once. A copy may then act although the other one has completed and been
// undone, and only a service that refuses a do after its undo keeps the promise: here all services refuse such a copy.
func (l *effectLedger) copied(attempt int) bool { return l.requests[attempt] > 1 }

func (a *agents) serveUndo(l *effectLedger, work *events.Work, f outcome) outcome {
	answered := f == outcomeDone || f == outcomeLate
	switch s := a.serviceOf(work); {
	case !a.does(f):
	case !s.strict || l.applied:
		if s.bare && l.applied {
			a.w.saw(sawUndoneBare)
		}
		l.applied, l.undone, l.undoneAt = false, true, a.w.now
		if s.unkind() && a.w.chance(a.w.faults.EffectTwice) {
			a.again(work.Undoes)
		}
	case answered && len(work.Output) > 0 && work.Attempt == 1:
		// The do completed but its effect is not there, so the agent thinks that it looked in the wrong place. The agent is wrong
		// if another copy of the undo came first.
		a.w.saw(sawUndoNotFound)
		if !l.done && !l.lied {
			a.w.fail("an undo of %s.%s has an output, and the do was never carried out", work.Task, work.Step)
		}
		return outcomePermanentNone
	default:
		a.w.saw(sawUndoOfNothing)
	}
	return f
}

// again delivers the latest requests of a do once more, as happens to an instance that starts again.
func (a *agents) again(key string) {
	for _, agent := range everyAgent {
		for _, d := range a.recent[agent] {
			if d.work.IdempotencyKey == key {
				a.deliver(d)
			}
		}
	}
}

// does says whether an attempt with this outcome is carried out.
func (a *agents) does(f outcome) bool {
	return f == outcomeDone || f == outcomeLate || ((f == outcomeSilent || f == outcomeFailedUnknown) && a.w.rng.IntN(2) == 0)
}

// landLater lets the effect of a do in doubt arrive after its report. A service refuses it if the do has been copied and undone.
func (a *agents) landLater(l *effectLedger, work *events.Work) {
	a.landWithin(l, work, func() bool {
		refused := l.undone && l.copied(work.Attempt)
		if refused {
			a.w.saw(sawCopyAfterUndo)
		}
		return !refused
	})
}

// landWithin lets the effect of a do arrive before its complete-by time and the grace, if the service takes it. The service carries
// it out even after the undo.
func (a *agents) landWithin(l *effectLedger, work *events.Work, takes func() bool) {
	room := work.CompleteBy.Add(a.w.cfg.Settings.Grace.Std()).Sub(a.w.now).Milliseconds()
	if room <= 0 || !a.w.clocks.hold() || !a.serviceOf(work).unkind() && a.w.rng.IntN(2) == 0 {
		return
	}
	a.w.after(a.w.rng.IntN(int(room)), func() {
		if !takes() {
			return
		}
		a.w.saw(sawLandedLate)
		if a.w.now > work.CompleteBy {
			a.w.saw(sawLandedInGrace)
		}
		a.w.note("the effect of %s.%s lands late", work.Task, work.Step)
		l.do()
	})
}
