package verify

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// remembered checks that nothing is forgotten earlier than the adopted settings say, or right after the time of the log has jumped.
func (p *partition) remembered(f *events.Fact, b *events.TasksSwept, at Place) {
	shortest := p.settings.remember
	for _, id := range b.Tasks {
		shortest = min(shortest, p.settings.rememberFor(p.known[digestOf(id)]))
	}
	if b.EndedBefore.Add(shortest) > f.Time {
		p.wrong(CheckAttempts, "swept", at, "tasks that ended before %s are forgotten at %s, but they are remembered for %s at least", b.EndedBefore, f.Time, shortest)
	}
	if p.jumpedAt != 0 && f.Time.Sub(p.jumpedAt) < events.SweepAfterJump {
		p.wrong(CheckAttempts, "swept_after_jump", at, "tasks are forgotten at %s, but the time of the log jumped at %s, and nothing is forgotten for %s after that", f.Time, p.jumpedAt, events.SweepAfterJump)
	}
}

// sweep checks that the tasks that are forgotten may be.
func (p *partition) sweep(f *events.Fact, b *events.TasksSwept, at Place) {
	for _, id := range b.Tasks {
		if forgottenUncarried(p, id, at) {
			continue
		}
		k, ok := p.known[digestOf(id)]
		what := ""
		switch {
		case !ok:
			what = "a task that does not exist is forgotten"
		case p.live[id] != nil:
			what = "a task that has not ended is forgotten"
		case k.ended >= b.EndedBefore:
			what = fmt.Sprintf("a task that ended at %s, not before %s, is forgotten", k.ended, b.EndedBefore)
		case k.ended.Add(p.settings.rememberFor(k)) >= f.Time:
			what = fmt.Sprintf("a task that ended at %s is forgotten, and it is remembered for %s", k.ended, p.settings.rememberFor(k))
		case k.kept:
			what = "a child is forgotten, and its parent has not released it"
		case k.tries > 0:
			what = fmt.Sprintf("a task is forgotten, and has not released %d of its children", k.tries)
		case k.ended >= b.ForgottenBefore && p.settings.rememberFor(k) < p.settings.remember:
			what = fmt.Sprintf("a task that ended at %s was remembered for %s, shorter than the settings say, and its fact does not say so", k.ended, k.remember)
		case k.ended >= b.ScheduledForgottenBefore && k.scheduled:
			what = fmt.Sprintf("a task that a schedule or another task started ended at %s, and the fact that forgets it does not say so", k.ended)
		}
		if what != "" {
			p.book.add(Finding{Check: CheckAttempts, Kind: "swept", Place: at, Task: id, What: what})
		}
		if !ok {
			continue
		}
		forget(p, id)
		p.count.Swept++
		delete(p.known, digestOf(id))
		p.swept[digestOf(id)] = k.content
	}
}
