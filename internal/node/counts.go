package node

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/projector"
)

// counts implements api.Counts.
type counts struct {
	*tasks
	waiting *waitingMetrics
}

// Count implements api.Counts.
func (c *counts) Count(ctx context.Context, q api.Query, by api.GroupBy) (groups []api.TaskCount, partial bool, err error) {
	if everything(&q) {
		switch by.Kind {
		case "state":
			return c.states(q.Partitions), false, nil
		case "waiting_for":
			return c.waits(q.Partitions), false, nil
		}
	}
	all := map[string]*api.TaskCount{}
	q.Limit, q.Brief = projector.MaxList, by.Kind != "step" && by.Kind != "error_code" && by.Kind != "waiting_for"
	for seen := 0; ctx.Err() == nil; {
		page, err := c.List(ctx, q)
		if err != nil {
			return nil, false, err
		}
		for _, t := range page.Tasks {
			for _, key := range c.keys(t, q.Match, by) {
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

func (c *counts) waits(partitions []int32) []api.TaskCount { return keyed(c.waiting.count(partitions)) }

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
	case "waiting_for":
		return kindsOf(t)
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

// kindsOf returns what the steps of a task wait for besides an agent, "" if none does.
func kindsOf(t *events.Task) (keys []string) {
	for w := range events.WaitingFor(t, events.At(time.Now())) {
		if !slices.Contains(keys, string(w.Kind)) {
			keys = append(keys, string(w.Kind))
		}
	}
	if len(keys) == 0 {
		return []string{""}
	}
	return keys
}
