package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// Load is a reader of a log that begins at a carry, as if the log had been cut there. From CarryEnded on, its state must be that of the whole
// log.
type Load struct {
	State *events.State
	// From is the offset at which the carry begins.
	From int64
}

// With returns a load that continues with a copy of the state.
func (l *Load) With(copied *events.State) *Load { return &Load{copied, l.From} }

// Follow folds the next record of the log, and compares the state with that of the whole log behind it, whose hash is sum. It returns what is
// wrong.
func (l *Load) Follow(f *events.Fact, offset int64, whole *events.State, sum events.Hash) string {
	if _, err := l.State.Apply(f, offset); err != nil {
		return fmt.Sprintf("INV2: a reader that begins with the carry at %d cannot fold %s at %d: %v", l.From, f.Body.Name(), offset, err)
	}
	d, err := l.State.Flush(nil)
	switch {
	case err != nil:
		return fmt.Sprintf("INV2: a reader that begins with the carry at %d: %v", l.From, err)
	case l.State.Partition.Loading():
		return ""
	case d.Sum != sum:
		return fmt.Sprintf("INV2: a reader that begins with the carry at %d has another state at %d", l.From, offset)
	}
	for _, after := range l.State.Partition.Delayed {
		if got, want := l.State.OffsetAfter(after), max(whole.OffsetAfter(after), l.From); got != want {
			return fmt.Sprintf("a reader that begins with the carry at %d resends from %d, and the others from %d", l.From, got, want)
		}
	}
	after := l.State.Partition.Watermark
	if got, want := l.State.OffsetAfter(after), max(whole.OffsetAfter(after), l.From); got != want {
		return fmt.Sprintf("a reader that begins with the carry at %d resends from %d, and the others from %d", l.From, got, want)
	}
	return ""
}

// follow folds a record into the readers that begin at carries, and cuts the log now and then where it may be cut.
func follow(p *partition, f *events.Fact, offset int64, valid bool, sum events.Hash) {
	switch f.Body.(type) {
	case *events.CarryBegun:
		if valid {
			fresh := events.NewState(p.id, nil)
			fresh.SetLax(p.w.lax())
			fresh.SetLevel(newerBuild)
			p.loads = append(p.loads, &Load{State: fresh, From: offset})
			p.loads = p.loads[max(0, len(p.loads)-2):]
		}
	case *events.CarryEnded:
		if valid {
			p.w.saw(sawCarry)
		}
	}
	for _, x := range p.loads {
		if fault := x.Follow(f, offset, p.state, sum); fault != "" {
			p.w.fail("partition %d: %s", p.id, fault)
		}
	}
	if p.w.aside.IntN(4) > 0 {
		return
	}
	snap := events.Snapshot{Next: p.state.Next, Runs: p.state.Runs(), Carries: events.CarryOffsets(p.state)}
	if at, ok := snap.Cut(&p.state.Partition, p.w.now); ok && at > p.log.start {
		p.w.note("log/%d is cut at %d", p.id, at)
		p.w.saw(sawCut)
		p.log.start = at
		if p.w.opt.year() {
			p.w.cuts++
			rebuild(p)
		}
	}
}

// seeDuring counts what an accepted fact shows while a carry is under way, before it is folded.
func seeDuring(p *partition, c *events.Carrying, f *events.Fact) {
	later := func(task string) bool {
		t, _ := p.state.Task(task)
		if t == nil || task <= c.Task {
			return false
		}
		accepted, err := events.ParsePosition(t.Incarnation)
		return err == nil && accepted.Before(c.Begun)
	}
	switch b := f.Body.(type) {
	case *events.PartitionClaimed:
		if p.w.saw(sawCarryTakenOver); p.state.Partition.HalfCarried() {
			p.w.saw(sawCarryHalf)
		}
	case *events.Submitted:
		p.w.saw(sawCarryAccepted)
	case *events.TasksSwept:
		if slices.ContainsFunc(b.Tasks, later) {
			p.w.saw(sawCarryForgotten)
		}
	case *events.StateHash:
		p.w.saw(sawCarryHashed)
	case *events.EntityCarried:
	default:
		if f.Task != "" && later(f.Task) {
			p.w.saw(sawCarryChanged)
		}
	}
}

// rebuilds removes the store of a partition whose log was cut behind its end. The process ends, and the next one begins at the log's first
// record.
func (s *slot) rebuilds() {
	s.node.w.note("%s/%d has a store from before the cut", s.node.name, s.part.id)
	s.node.w.saw(sawStoreBeforeCut)
	s.node.end()
	s.store, s.older, s.mark = NewStore(), nil, supervisor.Mark{}
}

// drawKeepLog chooses for how long facts are kept: in half of the runs for less than the run takes.
func drawKeepLog(r *rand.Rand) events.Duration {
	if r.IntN(2) == 0 {
		return 0
	}
	return events.Duration(time.Duration(1+r.IntN(20)) * time.Second)
}
