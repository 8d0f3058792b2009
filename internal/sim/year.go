package sim

import (
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
)

// Year returns the options of a long run: the log is cut many times while tasks come, agents fail, nodes crash and partitions move. For a year,
// facts and tasks are kept for as long as by default; in a shorter run for less, so that it also has many cuts.
func Year(days int) Options {
	keep := min(time.Duration(days)*24*time.Hour/8, events.DefaultSettings().KeepLog.Std())
	n := float64(days)
	return Options{
		Nodes: 2, Partitions: 2, Tasks: days * tasksPerDay, Chaos: time.Duration(days) * 24 * time.Hour,
		KeepLog: keep, Remember: min(keep/2, events.DefaultSettings().RememberFor.Std()),
		Faults: &Faults{
			Lost: 0.01, Silent: 0.01, Error: 0.01, Split: 0.02, Apart: 0.02, Double: 0.01, Reorder: 0.02, VeryLate: 0.002, AnswerTwice: 0.02, Slow: 0.05,
			Refuse: 0.01, EffectTwice: 0.03, Mute: 0.002, AskFails: 0.02,
			AgentSilent: 0.01, AgentFails: 0.05, AgentLate: 0.01, AgentTwice: 0.05, AgentSlow: 0.05, Odd: 0.02,
			Misplaced: 0.02, Duplicate: 0.1, Conflict: 0.01, Garbage: 0.5, Cancel: 0.03, Retry: 0.02,
			Crash: 4 * n, Pause: 2 * n, Reassign: 3 * n, AgentDown: n, AgentRestart: n, AgentGone: n, Transaction: n, Copy: max(1, n/80), // a log that is copied more often is never cut
		},
	}
}

// tasksPerDay are so few that a year takes minutes.
const tasksPerDay = 24

// sleepers is how many tasks wait until nine tenths of the run are over, so that many cuts pass in front of them.
const sleepers = 10

// changing is how long workflows are applied. In a long run this ends soon, since each workflow adds to what clients submit and to what is kept.
func changing(w *World) time.Duration {
	if w.opt.year() {
		return min(w.opt.Chaos, 24*time.Hour)
	}
	return w.opt.Chaos
}

// yearTick is how often an owner looks at its timers in a long run.
const yearTick = 60_000

// sample draws whether to make a check of the whole state, with a chance of one in every. A long run makes fewer, because each of its cuts brings
// one anyway.
func sample(w *World, every int) bool {
	if w.opt.year() {
		every *= 50
	}
	return w.aside.IntN(every) == 0
}

// year says whether the run is a long one.
func (o *Options) year() bool { return o.KeepLog > 0 }

// Day is how much there is at the end of a day of a long run.
type Day struct {
	// Facts were accepted since the run began, and Cuts made, each followed by a rebuild.
	Facts, Cuts, Crashes int
	// Tasks are in the stores; LogBytes is the size of the records that readers still find, and StoreBytes that of the rows.
	Tasks, LogRecords    int
	LogBytes, StoreBytes int64
}

// countDays ends each day of a long run: an operator looks at the tasks that do not go on, and the sizes are noted.
func countDays(w *World) {
	if !w.opt.year() {
		return
	}
	day := 24 * time.Hour
	for at := day; at <= w.opt.Chaos; at += day {
		w.after(int(at.Milliseconds()), func() {
			w.clients.tidy()
			if w.opt.EachDay != nil {
				w.opt.EachDay(measure(w))
			}
		})
	}
}

// tidy retries or terminates every task that does not go on by itself, and opens the limits.
func (c *clients) tidy() {
	c.w.namedLimits.heal()
	for _, limit := range limitsOfClients {
		c.askLimit(limit, events.RequestResume, 2)
	}
	for _, p := range c.w.parts {
		var ids []string
		p.state.Loaded(func(t *events.Task) bool {
			if t.Halted() && !t.State.Ended() {
				ids = append(ids, t.ID)
			}
			return true
		})
		for _, id := range ids {
			c.request(events.Request{Kind: []events.Verb{events.RequestRetry, events.RequestTerminate, events.RequestTerminate}[c.w.rng.IntN(3)], Task: id})
		}
	}
}

func measure(w *World) Day {
	d := Day{Facts: w.report.Facts, Cuts: w.cuts, Crashes: w.report.Crashes}
	for i, p := range w.parts {
		for o := p.log.start; o < p.log.end(); o++ {
			d.LogRecords++
			d.LogBytes += int64(p.log.records[o].Size())
		}
		store := w.nodes[w.group[i]].slots[i].store
		d.Tasks += store.Len()
		d.StoreBytes += store.bytes()
	}
	return d
}

// bytes adds up the sizes of the rows.
func (s *Store) bytes() (n int64) {
	for id, r := range s.tasks {
		n += int64(len(id) + len(r.encoding))
		for _, o := range r.others {
			n += int64(len(o.ID) + len(o.Encoding))
		}
	}
	for _, p := range s.parts {
		n += int64(len(p.ID) + len(p.Encoding))
	}
	return n
}

// rebuild folds what a cut has left of the log into an empty store, and checks that the result is the state that the whole log has.
func rebuild(p *partition) *Store {
	store := NewStore()
	s := events.NewState(p.id, store.Load)
	s.SetLax(p.w.lax())
	s.SetLevel(newerBuild)
	for o := p.log.start; o < p.log.end(); o++ {
		r := &p.log.records[o]
		if !p.fold(s, r) {
			return store
		}
		if o%rebuildBatch > 0 && o+1 < p.log.end() {
			continue
		}
		d, err := s.Flush(nil)
		if err == nil {
			err = store.Apply(d, *r)
		}
		if err != nil {
			p.w.fail("INV2: partition %d cannot be rebuilt from the cut at %d: %v", p.id, p.log.start, err)
			return store
		}
		for _, t := range d.Tasks {
			s.Evict(t.ID)
		}
	}
	want := p.sums[len(p.sums)-1]
	if store.Sum() != want || store.full() != want {
		p.w.fail("INV2: partition %d, rebuilt from the cut at %d, differs at its end %d", p.id, p.log.start, p.log.end())
	}
	return store
}

// rebuildBatch is how many records a rebuild folds between two commits.
const rebuildBatch = 7

// sleeps makes a few tasks of a long run wait for most of it.
func sleeps(w *World, n int, body map[string]any) {
	if w.opt.year() && n < sleepers {
		body["not_before"] = begin.Add(w.opt.Chaos * 9 / 10).String()
	}
}

// String is a line of a table.
func (d *Day) String() string {
	return fmt.Sprintf("%9d facts, %4d cuts, %5d crashes; log %8d bytes in %6d records, store %8d bytes, %5d tasks", d.Facts, d.Cuts, d.Crashes, d.LogBytes, d.LogRecords, d.StoreBytes, d.Tasks)
}
