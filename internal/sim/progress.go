package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
)

// beats makes an attempt of a step with a heartbeat. It takes up to fifteen seconds, and its agent ends it when the progress that was acknowledged
// is too old. The service carries it out at its end.
func (a *agents) beats(d delivery) {
	w := a.w
	b := &beating{a: a, d: d, until: d.work.CompleteBy, over: w.now.Add(time.Duration(w.rng.IntN(15_000)) * time.Millisecond)}
	if w.rng.IntN(3) == 0 {
		b.silent = w.now.Add(time.Duration(w.rng.IntN(10_000)) * time.Millisecond)
	}
	b.goOn()
}

// beating is a running attempt of a step with a heartbeat.
type beating struct {
	a *agents
	d delivery
	// until is its end, as its agent knows it; over is when its function returns, and silent when the agent falls silent, 0 for never.
	until, over, silent events.Instant
	n                   int
}

// goOn is called every second or so.
func (b *beating) goOn() {
	w := b.a.w
	switch {
	case w.now >= b.until:
		w.saw(sawSilent)
		w.note("the agent ends attempt %d of %s.%s", b.d.work.Attempt, b.d.work.Task, b.d.work.Step)
		return
	case w.now >= b.over:
		b.d.work.CompleteBy = b.until // nothing of it can land later than it would after a complete-by time
		b.a.finishes(b.d)
		return
	case b.silent == 0 || w.now < b.silent:
		b.beat()
	}
	w.after(300+w.rng.IntN(2000), b.goOn)
}

// beat sends progress. It may be lost, or acknowledged late.
func (b *beating) beat() {
	w := b.a.w
	b.n++
	sent := w.now
	p := events.Report{
		Task: b.d.work.Task, Run: b.d.work.Run, Step: b.d.work.Step, Operation: b.d.work.Operation, Attempt: b.d.work.Attempt, Ticket: b.d.work.Ticket,
		Result: events.ResultProgress, Progress: json.RawMessage(fmt.Sprintf(`{"n":%d}`, 100*b.d.work.Attempt+b.n)), Instance: fmt.Sprintf("agent-%d", b.d.instance),
	}
	if w.chance(w.faults.Odd) {
		p.Progress = json.RawMessage(fmt.Sprintf("%q", padding(aroundLimit(w, events.MaxProgress)-2)))
	}
	if w.chance(w.faults.AgentLate) { // it never leaves
		return
	}
	w.after(1+w.lag(), func() {
		b.a.report(p, b.d)
		w.after(1+w.lag(), func() {
			if w.now < b.until {
				b.until = b.d.work.ActsUntil(sent)
			}
		})
	})
}

// progresses checks that progress extends the attempt that it belongs to, by as much as its agent may rely on.
func (a *sagas) progresses(g *saga, f *events.Fact, b *events.StepProgressed) string {
	s := g.steps[b.Step]
	if s == nil || !s.running || s.attempt != b.Attempt || s.capBy == 0 {
		return "INV7: the progress of an attempt that does not run"
	}
	if want := max(s.completeBy, min(f.Time.Add(2*s.def.Heartbeat.Std()), s.capBy)); b.CompleteBy != want {
		return fmt.Sprintf("progress extends an attempt until %s and not until %s", b.CompleteBy, want)
	}
	if g.undoing {
		a.w.saw(sawProgressLate)
	}
	a.w.saw(sawProgress)
	if len(b.Progress) > 0 {
		s.progress = b.Progress
	}
	s.completeBy, s.progressedAt = b.CompleteBy, f.Time
	return ""
}
