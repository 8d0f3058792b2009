package node

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/projector"
)

// counts implements api.Counts.
type counts struct {
	*tasks
	waiting *waitingMetrics
	// now is the time to which counts refer.
	now func() time.Time
	// followed is the latest look at what the tasks of followed partitions wait for.
	followed followedWaits
}

// followedWaits keeps a look for freshFor, since each open page asks every second, and a look reads and plans up to api.MostCounted tasks.
type followedWaits struct {
	// mu guards the fields below. It is held during a look, so that all who ask share it.
	mu         sync.Mutex
	at         time.Time
	partitions []int32
	list       []api.TaskCount
	partial    bool
}

const freshFor = 10 * time.Second

// Count implements api.Counts.
func (c *counts) Count(ctx context.Context, q api.Query, by api.GroupBy) (groups []api.TaskCount, partial bool, err error) {
	if everything(&q) {
		switch by.Kind {
		case "state":
			return c.states(q.Partitions), false, nil
		case "waiting_for":
			if !c.ns.past {
				return c.waits(ctx, q)
			}
		}
	}
	if by.Kind == "waiting_for" {
		agents := sync.OnceValue(c.waiting.agents)
		return c.look(ctx, q, by, func(t *events.Task, _ events.TaskMatch, _ api.GroupBy) []string { return c.kindsOf(t, agents) })
	}
	return c.look(ctx, q, by, c.keys)
}

// look counts tasks in groups by looking at each. keys returns the groups of a task.
func (c *counts) look(ctx context.Context, q api.Query, by api.GroupBy, keys func(t *events.Task, match events.TaskMatch, by api.GroupBy) []string) (groups []api.TaskCount, partial bool, err error) {
	all := map[string]*api.TaskCount{}
	q.Limit, q.Brief = projector.MaxList, by.Kind != "step" && by.Kind != "error_code" && by.Kind != "waiting_for"
	for seen := 0; ctx.Err() == nil; {
		page, err := c.List(ctx, q)
		if err != nil {
			return nil, false, err
		}
		for _, t := range page.Tasks {
			for _, key := range keys(t, q.Match, by) {
				add(all, key, t.UpdatedAt)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return collected(all), false, nil
		}
		if seen += max(len(page.Tasks), 1); seen >= api.MostCounted {
			return collected(all), true, nil
		}
	}
	return nil, false, ctx.Err()
}

// everything says whether a query filters nothing.
func everything(q *api.Query) bool {
	return len(q.States) == 0 && q.Workflow == "" && len(q.Labels) == 0 && q.Since == 0 && q.Until == 0 && q.Match == (events.TaskMatch{})
}

func (c *counts) states(partitions []int32) []api.TaskCount {
	sum := map[events.TaskState]int64{}
	for _, p := range partitions {
		for state, n := range c.store.Partition(p).States() {
			sum[state] += n
		}
	}
	return keyed(sum)
}

// waits counts what steps wait for. The owner of a partition counts them as it plans; for a partition that another node owns, each live task is
// looked at.
func (c *counts) waits(ctx context.Context, q api.Query) (groups []api.TaskCount, partial bool, err error) {
	var owned, others []int32
	for _, p := range q.Partitions {
		if c.waiting.owners.owns(p) {
			owned = append(owned, p)
		} else {
			others = append(others, p)
		}
	}
	sum := c.waiting.count(owned)
	if len(others) > 0 {
		var list []api.TaskCount
		list, partial, err = c.waitsElsewhere(ctx, q, others)
		for _, g := range list {
			sum[events.Waiting(g.Key)] += g.Count
		}
	}
	return keyed(sum), partial, err
}

// waitsElsewhere looks at the tasks of partitions that other nodes own.
func (c *counts) waitsElsewhere(ctx context.Context, q api.Query, partitions []int32) ([]api.TaskCount, bool, error) {
	f := &c.followed
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.at) < freshFor && slices.Equal(f.partitions, partitions) {
		return f.list, f.partial, nil
	}
	q.Partitions, q.States = partitions, api.LiveStates
	agents := sync.OnceValue(c.waiting.agents)
	list, partial, err := c.look(ctx, q, api.GroupBy{Kind: "waiting_for"}, func(t *events.Task, _ events.TaskMatch, _ api.GroupBy) (kinds []string) {
		for kind := range c.kinds(t, agents) {
			kinds = append(kinds, string(kind))
		}
		return kinds
	})
	if err == nil {
		f.at, f.partitions, f.list, f.partial = time.Now(), slices.Clone(partitions), list, partial
	}
	return list, partial, err
}

func keyed[K ~string](sum map[K]int64) (list []api.TaskCount) {
	for key, n := range sum {
		if n > 0 {
			list = append(list, api.TaskCount{Key: string(key), Count: n})
		}
	}
	return list
}

func add(all map[string]*api.TaskCount, key string, at events.Instant) {
	g := all[key]
	if g == nil {
		g = &api.TaskCount{Key: key, Oldest: at}
		all[key] = g
	}
	g.Count++
	g.Oldest = min(g.Oldest, at)
}

func collected(all map[string]*api.TaskCount) (list []api.TaskCount) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[key])
	}
	return list
}

// keys returns the groups that a task is in. For those of failures, only those that the query selects count: a list by the query and a
// group's key has as many tasks as the group.
func (c *counts) keys(t *events.Task, match events.TaskMatch, by api.GroupBy) []string {
	switch by.Kind {
	case "state":
		return []string{string(t.State)}
	case "workflow":
		return []string{t.Workflow}
	case "reason":
		return []string{api.ReasonOf(t)}
	case "label":
		return []string{t.Labels[by.Label]}
	}
	var keys []string
	for s, e := range match.Failures(t) {
		if by.Kind == "step" {
			keys = append(keys, events.DefinedStep(s.Path))
		} else {
			keys = append(keys, e.Name())
		}
	}
	slices.Sort(keys)
	if keys = slices.Compact(keys); len(keys) == 0 {
		return []string{""}
	}
	return keys
}

// kindsOf returns what the steps of a task wait for, "" if none waits.
func (c *counts) kindsOf(t *events.Task, agents func() events.Availability) (keys []string) {
	for kind := range c.kinds(t, agents) {
		if !slices.Contains(keys, string(kind)) {
			keys = append(keys, string(kind))
		}
	}
	if len(keys) == 0 {
		return []string{""}
	}
	return keys
}

// kinds returns what each waiting step of a task waits for. Of the past, it is what the steps waited for at that moment, as far as facts say it.
func (c *counts) kinds(t *events.Task, agents func() events.Availability) iter.Seq[events.Waiting] {
	return func(yield func(events.Waiting) bool) {
		now := events.At(c.now())
		for w := range events.WaitingFor(t, now) {
			if !yield(w.Kind) {
				return
			}
		}
		if c.ns.past || t.State.Ended() {
			return
		}
		k, err := c.Keys(context.Background(), t)
		if err != nil {
			return // whoever looks at the task itself learns why
		}
		if events.HeldForKey(t, &k) && !yield(events.WaitingKey) {
			return
		}
		if _, waits := events.WaitsForOwner(&k, now); waits && !yield(events.WaitingOwner) {
			return
		}
		if !t.Starts() || len(k.Ready) == 0 {
			return
		}
		a := agents()
		for _, r := range k.Ready {
			if kind, _ := a.QueuedFor(r.Call()); r.Agent != "" && !yield(kind) {
				return
			}
		}
	}
}
