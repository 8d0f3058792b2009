package whatif

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// Calibration says how far replays under the policies that were in force reproduce history.
type Calibration struct {
	// Tasks is how many tasks count: those that were replayed, and those that were not for a reason that depends on how they went.
	Tasks int `json:"tasks"`
	// SameEnd is the share of them that ended as in history, and Reproduces says that this is enough.
	SameEnd    float64 `json:"same_end"`
	Reproduces bool    `json:"reproduces"`
	// Attempts and P95 are by how much the attempts, and the 95th percentile of the durations, differ from history: 0.01 is 1 % more.
	Attempts float64 `json:"attempts"`
	P95      float64 `json:"duration_p95"`
	// Differences say why tasks ended otherwise, and NotReplayed why tasks were not replayed.
	Differences []Count `json:"differences"`
	NotReplayed []Count `json:"not_replayed"`
}

// Children is how many tasks were not replayed because of children: other tasks do steps of them, or another task started them.
func (c *Calibration) Children() (n int) {
	for _, s := range c.NotReplayed {
		if s.Reason == skipChild || s.Reason == skipParent {
			n += s.Tasks
		}
	}
	return n
}

// Count is how many tasks there are for a reason.
type Count struct {
	Reason Reason `json:"reason"`
	Tasks  int    `json:"tasks"`
	// Counts says of tasks that were not replayed that they count as not reproduced.
	Counts bool `json:"counts,omitempty"`
	// Example is one of them: the first in the order of the names.
	Example string `json:"example"`
	// Detail is the error of that task, if there was one.
	Detail string `json:"detail,omitempty"`
}

// calibrating adds tasks up.
type calibrating struct {
	replayed, same int
	skipped        map[Reason]int
	differs        map[Reason]int
	examples       map[Reason]string
	// details are the errors of the examples.
	details map[Reason]string
	// was and own are the attempts, of the tasks that were replayed.
	was, own         int
	wasTook, ownTook histogram
}

func newCalibrating() *calibrating {
	return &calibrating{skipped: map[Reason]int{}, differs: map[Reason]int{}, examples: map[Reason]string{}, details: map[Reason]string{}}
}

func (c *calibrating) add(t *Trace) {
	if t.Skipped != "" {
		c.skipped[t.Skipped]++
		c.example(t.Skipped, t.Task)
		if c.examples[t.Skipped] == t.Task {
			c.details[t.Skipped] = t.Detail
		}
		return
	}
	c.replayed++
	c.was += total(t.calls())
	c.own += total(t.Own.Calls)
	c.wasTook.add(t.EndedAt.Sub(t.Accepted))
	if t.Own.End != "" {
		c.ownTook.add(t.Own.EndedAt.Sub(t.Accepted))
	}
	if t.Own.End == t.End {
		c.same++
		return
	}
	why := cmp.Or(t.Own.Why, whyOrder)
	c.differs[why]++
	c.example(why, t.Task)
}

// example keeps the least name, so that it does not depend on the order of partitions.
func (c *calibrating) example(why Reason, task string) {
	if old, ok := c.examples[why]; !ok || task < old {
		c.examples[why] = task
	}
}

func (c *calibrating) merge(o *calibrating) {
	c.replayed, c.same, c.was, c.own = c.replayed+o.replayed, c.same+o.same, c.was+o.was, c.own+o.own
	for why, n := range o.skipped {
		c.skipped[why] += n
	}
	for why, n := range o.differs {
		c.differs[why] += n
	}
	for why, task := range o.examples {
		if c.example(why, task); c.examples[why] == task {
			c.details[why] = o.details[why]
		}
	}
	c.wasTook.merge(&o.wasTook)
	c.ownTook.merge(&o.ownTook)
}

func (c *calibrating) seen() int { return c.replayed + total(c.skipped) }

func (c *calibrating) calibration() Calibration {
	out := Calibration{Tasks: c.replayed, Differences: c.counts(c.differs), NotReplayed: c.counts(c.skipped)}
	for why, n := range c.skipped {
		if biased[why] {
			out.Tasks += n
		}
	}
	if out.Tasks > 0 {
		out.SameEnd = float64(c.same) / float64(out.Tasks)
	}
	out.Reproduces = c.replayed > 0 && out.SameEnd >= minReproduced
	out.Attempts = change(float64(c.was), float64(c.own))
	out.P95 = change(seconds(c.wasTook.quantile(0.95)), seconds(c.ownTook.quantile(0.95)))
	return out
}

func (c *calibrating) counts(of map[Reason]int) []Count {
	list := []Count{}
	for _, why := range slices.Sorted(maps.Keys(of)) {
		list = append(list, Count{Reason: why, Tasks: of[why], Counts: biased[why], Example: c.examples[why], Detail: c.details[why]})
	}
	slices.SortStableFunc(list, func(a, b Count) int { return cmp.Compare(b.Tasks, a.Tasks) })
	return list
}

// change is by how much a figure differs from another.
func change(from, to float64) float64 {
	if from == 0 {
		return 0
	}
	return to/from - 1
}

func seconds(d time.Duration) float64 { return d.Seconds() }

func total[K comparable](counts map[K]int) (n int) {
	for _, x := range counts {
		n += x
	}
	return n
}

// ends are the ends that a task may have here.
var ends = []events.TaskState{events.TaskStateProcessed, events.TaskStateUndone, events.TaskStateError}
