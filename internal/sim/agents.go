package sim

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// agents plays all agents and the remote services behind them.
type agents struct {
	w *World
	// services holds the service behind each agent.
	services map[string]service
	// ledger holds the changes of each do, by its idempotency key.
	ledger map[string]*effectLedger
	// outcomes remembers the outcome of each attempt at each instance: a redelivered request has the same outcome.
	outcomes map[string]outcome
	// down says until when each agent is down; its requests wait in its topic.
	down map[string]events.Instant
	// recent is the latest work of each agent, which a restarted instance gets again.
	recent map[string][]delivery
	// reported holds the reports for each task ID. They are sent again when another task reuses the ID.
	reported map[string][]delivery
}

type delivery struct {
	work   events.Work
	report events.Report
	trace  string
	// instance is the instance that has the request, because it reads the request's partition.
	instance int
	// copies is how many copies of the namespace had been made when it came.
	copies int
}

type outcome int

const (
	outcomeDone outcome = iota
	outcomeFailedNone
	// An attempt that is over reports done_unknown. An attempt in doubt reports a failure while its effect may still be under
	// way.
	outcomeFailedUnknown
	outcomeFailedDoubt
	outcomePermanentNone
	outcomePermanentUnknown
	outcomePermanentDoubt
	// The agent does not try.
	outcomeNotMade
	outcomeSilent
	outcomeLate
)

func newAgents(w *World, services map[string]service) *agents {
	return &agents{
		w: w, services: services, ledger: map[string]*effectLedger{}, outcomes: map[string]outcome{},
		down: map[string]events.Instant{}, recent: map[string][]delivery{}, reported: map[string][]delivery{},
	}
}

// doKey is the idempotency key of the do of a step, under which the service knows its effect.
func (w *World) doKey(work *events.Work) string { return work.Key(w.cfg.NamespaceID, events.Do) }

// remind is called while an attempt runs. It repeats the reports about earlier tasks with the same ID whose attempts have the same
// numbers.
func (a *agents) remind(id Attempt, ticket string) {
	for _, d := range a.reported[id.Task] {
		if p := d.report; p.Ticket != ticket && p.Step == id.Step && p.Operation == id.Op && p.Attempt == id.N {
			a.w.after(1+a.w.rng.IntN(100), func() { a.report(p, d) })
		}
	}
}

// heal makes every service answer from now on. Earlier answers stay: a service that reported that an attempt had no
// effect does not carry it out when the request is delivered again.
func (a *agents) heal() {
	for k, f := range a.outcomes {
		if f == outcomeSilent || f == outcomeLate {
			delete(a.outcomes, k)
		}
	}
	clear(a.down)
}

func (a *agents) receive(r events.Record) {
	work, _, err := events.DecodeWork(&r)
	if err != nil {
		a.w.fail("an agent cannot read its work: %v", err)
		return
	}
	d := delivery{work: work, trace: r.Header(events.HeaderTraceparent), instance: int(r.Partition) % instances, copies: a.w.copies}
	list := append(a.recent[work.Agent], d)
	a.recent[work.Agent] = list[max(0, len(list)-8):]
	a.copyLandsLater(d)
	for range 1 + a.w.bit(a.w.faults.EffectTwice/2) {
		a.deliver(d)
	}
}

// deliver brings a request to its agent, now or when it is up again.
func (a *agents) deliver(d delivery) {
	wait := 0
	if until := a.down[d.work.Agent]; until > a.w.now {
		wait = int(until - a.w.now)
		a.w.saw(sawAgentDown)
	}
	if d.work.Operation == events.Do {
		a.entry(d.work.IdempotencyKey).requests[d.work.Attempt]++
	}
	a.w.after(1+wait+a.w.lag(), func() { a.work(d) })
}

// goDown stops all instances of an agent for a while.
func (a *agents) goDown() {
	name := a.any()
	a.down[name] = a.w.now + events.Instant(500+a.w.rng.IntN(20_000))
	a.w.note("agent %s is down", name)
}

// restart starts an instance again. It receives the requests that it had not committed, finished or not.
func (a *agents) restart() {
	name := a.any()
	a.w.note("agent %s starts again", name)
	for _, d := range a.recent[name] {
		if a.w.rng.IntN(2) == 0 {
			a.w.saw(sawRedelivered)
			a.deliver(d)
		}
	}
}

func (a *agents) any() string { return everyAgent[a.w.rng.IntN(len(everyAgent))] }

func (a *agents) draw(work *events.Work, instance int) outcome {
	k := fmt.Sprintf("%s %d %d", work.IdempotencyKey, work.Attempt, instance)
	f, ok := a.outcomes[k]
	if ok {
		return f
	}
	x := a.w.faults
	switch {
	case a.w.chance(x.AgentSilent):
		f = outcomeSilent
	case a.w.chance(x.AgentLate):
		f = outcomeLate
	case a.w.chance(x.AgentFails):
		f = []outcome{outcomeFailedNone, outcomeFailedUnknown, outcomeFailedDoubt, outcomeFailedDoubt, outcomePermanentNone, outcomePermanentUnknown, outcomePermanentDoubt, outcomeNotMade, outcomeNotMade}[a.w.rng.IntN(9)]
	}
	a.outcomes[k] = f
	return f
}

// work makes one attempt. After its complete-by time an agent stops and reports nothing (docs/protocol.md, "Attempts and effect none").
func (a *agents) work(d delivery) {
	w, work := a.w, d.work
	if w.now > a.startsUntil(&work) {
		return
	}
	if work.Heartbeat > 0 {
		a.beats(d)
		return
	}
	a.finishes(d)
}

// finishes makes the service answer and reports the outcome of an attempt.
func (a *agents) finishes(d delivery) {
	w, work := a.w, d.work
	key := work.IdempotencyKey
	if work.Operation == events.Undo {
		key = work.Undoes
	}
	l := a.entry(key)
	f := outcomeNotMade
	if w.offers.lacking[lack{d.instance, work.Call()}] > 0 {
		w.saw(sawNoOperation)
	} else {
		f = a.serve(l, &work, a.draw(&work, d.instance))
	}
	p := events.Report{
		Task: work.Task, Run: work.Run, Step: work.Step, Operation: work.Operation, Attempt: work.Attempt, Ticket: work.Ticket,
		Result: events.ResultCompleted, Instance: fmt.Sprintf("agent-%d", d.instance), StartedAt: w.now, FinishedAt: w.now,
	}
	a.fill(&p, f)
	if work.Heartbeat > 0 && (f == outcomeFailedUnknown || f == outcomeFailedDoubt) && work.Attempt%2 == 1 {
		p.Error.Class, p.Error.Code = events.ClassUnavailable, events.CodeStopped // the agent stops during the attempt
	}
	if work.Operation == events.Do && p.Result == events.ResultCompleted && w.chance(w.faults.AgentTwice) {
		p.Effect = events.EffectInDoubt // the agent got the request twice
	}
	a.odd(p, d)
	if f == outcomeSilent {
		return
	}
	wait := 1 + w.lag()
	if f == outcomeLate {
		wait = int(min(max(0, work.CompleteBy.Sub(w.now).Milliseconds()), 10_000)) - 500 + w.rng.IntN(1500)
		if w.rng.IntN(4) == 0 {
			wait += w.rng.IntN(20_000)
		}
	}
	if w.chance(w.faults.AgentSlow) {
		wait += w.rng.IntN(max(1, int(work.CompleteBy.Sub(w.now).Milliseconds()))%10_000 + 1)
	}
	a.reported[work.Task] = append(a.reported[work.Task], delivery{work: work, report: p, trace: d.trace, copies: d.copies})
	for range 1 + w.bit(w.faults.AgentTwice) {
		w.after(max(1, wait+w.lag()), func() { a.report(p, d) })
	}
}

// copyLandsLater lets another instance carry out a request that another owner has sent again, perhaps after the attempt has
// completed. The undo waits for it, so no service needs to refuse it.
func (a *agents) copyLandsLater(d delivery) {
	if a.w.parts[d.work.Home].sagas.sentAgain(&d.work, a.w.parts[d.work.Home].state.Partition.Epoch) {
		a.w.saw(sawCopyLandedLate)
		l := a.entry(d.work.IdempotencyKey)
		a.landWithin(l, &d.work, func() bool { return true })
	}
}

func (a *agents) fill(p *events.Report, f outcome) {
	switch f {
	case outcomeDone, outcomeLate:
		p.Output = json.RawMessage(fmt.Sprintf(`{"v": %d}`, p.Attempt))
		if a.w.chance(a.w.faults.Oversize) {
			p.Output = json.RawMessage(fmt.Sprintf(`{"pad":%q,"v":%d}`, padding(aroundLimit(a.w, a.w.cfg.Settings.PayloadBytes)-16), p.Attempt))
		}
		return
	case outcomeFailedNone, outcomePermanentNone, outcomeNotMade:
		p.Effect = events.EffectNone
	case outcomeFailedUnknown, outcomePermanentUnknown:
		p.Effect = events.EffectDoneUnknown
	case outcomeFailedDoubt, outcomePermanentDoubt:
		p.Effect = []events.Effect{events.EffectInDoubt, "", "unheard-of"}[a.w.rng.IntN(3)]
	}
	p.Result = events.ResultFailed
	p.Error = &events.Error{Class: events.ClassRetryable, Message: "it failed"}
	if a.w.chance(a.w.faults.Odd) {
		p.Error.Message, p.Error.Class = padding(10_000)+"\xff", "unheard-of"
		p.Error.Detail = json.RawMessage(fmt.Sprintf("%q", padding(aroundLimit(a.w, a.w.cfg.Settings.PayloadBytes&0xfff))))
		p.RetryAfter = events.Duration(a.w.rng.IntN(1500)) * 1e6
	}
	if f == outcomePermanentNone || f == outcomePermanentUnknown || f == outcomePermanentDoubt {
		p.Error.Class = events.ClassPermanent
	}
	if f == outcomeNotMade {
		p.Error.Class = events.ClassUnavailable
		if a.w.chance(a.w.faults.Odd) {
			p.Effect = "" // it contradicts itself, so the attempt counts
		}
	}
}

// odd adds reports that contradict the report of an attempt, or that are for an attempt that never existed. None of
// them denies an effect that happened or reports an undo that did not: nothing could be proved if an agent lied.
func (a *agents) odd(p events.Report, d delivery) {
	w, work := a.w, &d.work
	if !w.chance(w.faults.Odd) {
		return
	}
	switch kind := w.rng.IntN(7); {
	case kind == 0 && p.Operation == events.Do:
		if a.serviceOf(work).unkind() {
			return // the do may be under way, and the service carries it out after its undo
		}
		a.entry(work.IdempotencyKey).lied = true
		p.Result, p.Output, p.Error, p.Effect = events.ResultCompleted, json.RawMessage(`{"v": 7}`), nil, ""
	case kind <= 1:
		p.Result, p.Output, p.Effect = events.ResultFailed, nil, ""
		p.Error = &events.Error{Class: events.ClassRetryable, Message: "it says otherwise"}
	case kind == 2:
		p.Attempt += 50
	case kind == 3:
		p.Step = "nowhere"
	case kind == 4:
		p.Run++
	case kind == 5:
		p.Task = fmt.Sprintf("t%d", w.rng.IntN(w.opt.Tasks+2))
		d.work.Home = events.Home(p.Task, w.opt.Partitions)
	case kind == 6:
		p.Run = 0
	}
	d.trace = ""
	w.after(1+w.rng.IntN(6000), func() { a.report(p, d) })
}

// report sends a report to its home partition, and now and then to another one.
func (a *agents) report(p events.Report, d delivery) {
	w, home, trace := a.w, d.work.Home, d.trace
	if d.copies != w.copies {
		if w.rng.IntN(2) == 0 {
			return // it goes to the old namespace, where nobody reads it
		}
		w.saw(sawCopyCalledBack)
		home = events.Home(p.Task, w.opt.Partitions) // it comes as a callback, whose ticket is valid at the new nodes
	}
	r, err := events.EncodeReport(p, events.Subject{ID: fmt.Sprintf("%s-%s-%s-%d", p.Task, p.Step, p.Operation, p.Attempt), Source: "/agents", Time: w.now, Traceparent: trace})
	if err != nil {
		w.fail("a report cannot be encoded: %v", err)
		return
	}
	m := &meta{Input: Input{Kind: InputReport, Task: p.Task, Report: p}}
	if t, _ := w.parts[events.Home(p.Task, w.opt.Partitions)].state.Task(p.Task); t != nil && t.Running(p.Step, p.Operation, p.Attempt) && p.Ticket != t.Incarnation {
		w.saw(sawOtherLife)
	}
	if w.chance(w.faults.Misplaced / 3) {
		home = int32(w.rng.IntN(len(w.parts)))
	}
	w.parts[home].inputs.put(events.Reports, r, m)
}

// aroundLimit draws a size around a limit.
func aroundLimit(w *World, limit int) int {
	return []int{limit - 1, limit, limit, limit + 1, 2 * limit}[w.rng.IntN(5)]
}

// padding returns a string of n bytes.
func padding(n int) string { return strings.Repeat("x", max(0, n)) }
