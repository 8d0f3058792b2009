package sim

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// agents is every remote service behind every agent. A service applies a do once for its idempotency key, and
// refuses one after its undo.
type agents struct {
	w      *World
	ledger map[string]*effectLedger
	// fates remembers what became of each attempt: a redelivered request has the same fate.
	fates map[string]agentFate
}

// effectLedger is what one step of one task changed outside.
type effectLedger struct{ applied, undone bool }

type agentFate int

const (
	fateDone agentFate = iota
	fateFailedNone
	fateFailedUnknown
	fatePermanentNone
	fatePermanentUnknown
	fateSilent
	fateLate
)

func newAgents(w *World) *agents {
	return &agents{w: w, ledger: map[string]*effectLedger{}, fates: map[string]agentFate{}}
}

func ledgerKey(task, step string) string { return task + "\x00" + step }

// forget is for a task ID that is accepted anew after it was swept.
func (a *agents) forget(task string) {
	for k := range a.ledger {
		if strings.HasPrefix(k, task+"\x00") {
			delete(a.ledger, k)
		}
	}
	for k := range a.fates {
		if strings.HasPrefix(k, task+"\x00") {
			delete(a.fates, k)
		}
	}
}

// heal has every service answer from now on. What was answered stays: a service that reported that an attempt had no
// effect does not carry it out when the request is delivered again.
func (a *agents) heal() {
	for k, f := range a.fates {
		if f == fateSilent || f == fateLate {
			delete(a.fates, k)
		}
	}
}

func (a *agents) receive(r events.Record) {
	work, _, err := events.DecodeWork(&r)
	if err != nil {
		a.w.fail("an agent cannot read its work: %v", err)
		return
	}
	for range 1 + a.w.bit(a.w.faults.EffectTwice/2) {
		a.w.after(1+a.w.lag(), func() { a.work(work, r.Header(events.HeaderTraceparent)) })
	}
}

func (a *agents) draw(work *events.Work) agentFate {
	k := fmt.Sprintf("%s\x00%s\x00%s\x00%d", work.Task, work.Step, work.Operation, work.Attempt)
	f, ok := a.fates[k]
	if ok {
		return f
	}
	x := a.w.faults
	switch {
	case a.w.chance(x.AgentSilent):
		f = fateSilent
	case a.w.chance(x.AgentLate):
		f = fateLate
	case a.w.chance(x.AgentFails):
		f = []agentFate{fateFailedNone, fateFailedUnknown, fateFailedUnknown, fatePermanentNone, fatePermanentUnknown}[a.w.rng.IntN(5)]
	}
	a.fates[k] = f
	return f
}

// work makes one attempt. After its complete-by time an agent stops and reports nothing (MISSION C4).
func (a *agents) work(work events.Work, trace string) {
	w := a.w
	if w.now > work.CompleteBy.Add(3e9) {
		return
	}
	l := a.ledger[ledgerKey(work.Task, work.Step)]
	if l == nil {
		l = &effectLedger{}
		a.ledger[ledgerKey(work.Task, work.Step)] = l
	}
	f := a.draw(&work)
	p := events.Report{
		Task: work.Task, Run: work.Run, Step: work.Step, Operation: work.Operation, Attempt: work.Attempt, Ticket: work.Ticket,
		Result: events.ResultCompleted, Instance: "agent-1", StartedAt: w.now, FinishedAt: w.now,
	}
	switch {
	case work.Operation == events.Do && l.undone:
		f = fatePermanentUnknown
	case work.Operation == events.Do && l.applied && (f == fateFailedNone || f == fatePermanentNone):
		f = fateDone // the service says that it has done it
	}
	a.apply(l, work.Operation, f)
	a.fill(&p, f)
	if f == fateSilent {
		return
	}
	d := 1 + w.lag()
	if f == fateLate {
		d = int(max(0, work.CompleteBy.Sub(w.now).Milliseconds())) - 500 + w.rng.IntN(1500)
	}
	for range 1 + w.bit(w.faults.AgentTwice) {
		w.after(max(1, d+w.lag()), func() { a.report(p, work.Home, trace) })
	}
}

func (a *agents) apply(l *effectLedger, op events.Operation, f agentFate) {
	does := f == fateDone || f == fateLate || ((f == fateSilent || f == fateFailedUnknown) && a.w.rng.IntN(2) == 0)
	switch {
	case !does:
	case op == events.Undo:
		l.applied, l.undone = false, true
	case !l.undone:
		l.applied = true
	}
}

func (a *agents) fill(p *events.Report, f agentFate) {
	switch f {
	case fateDone, fateLate:
		p.Output = json.RawMessage(fmt.Sprintf(`{"v": %d}`, p.Attempt))
		return
	case fateFailedNone, fatePermanentNone:
		p.Effect = events.EffectNone
	}
	p.Result = events.ResultFailed
	p.Error = &events.Error{Class: events.ClassRetryable, Message: "it failed"}
	if f == fatePermanentNone || f == fatePermanentUnknown {
		p.Error.Class = events.ClassPermanent
	}
}

// report goes straight home; now and then something routes it elsewhere.
func (a *agents) report(p events.Report, home int32, trace string) {
	w := a.w
	r, err := events.EncodeReport(p, events.Subject{ID: fmt.Sprintf("%s-%s-%s-%d", p.Task, p.Step, p.Operation, p.Attempt), Source: "/agents", Time: w.now, Traceparent: trace})
	if err != nil {
		w.fail("a report cannot be encoded: %v", err)
		return
	}
	if w.chance(w.faults.Misplaced / 3) {
		home = int32(w.rng.IntN(len(w.parts)))
	}
	w.parts[home].put(events.Reports, r, &meta{kind: metaReport, task: p.Task, report: p})
}
