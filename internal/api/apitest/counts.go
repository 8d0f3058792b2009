package apitest

import (
	"context"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// Count implements api.Counts, by state only.
func (e *Engine) Count(ctx context.Context, q api.Query, _ api.GroupBy) (groups []api.TaskCount, partial bool, err error) {
	q.Limit, q.Cursor = api.MaxLimit, ""
	page, err := e.List(ctx, q)
	if err != nil {
		return nil, false, err
	}
	of := map[events.TaskState]int{}
	for _, t := range page.Tasks {
		i, ok := of[t.State]
		if !ok {
			i, of[t.State] = len(groups), len(groups)
			groups = append(groups, api.TaskCount{Key: string(t.State), Oldest: t.UpdatedAt})
		}
		groups[i].Count++
		groups[i].Oldest = min(groups[i].Oldest, t.UpdatedAt)
	}
	return groups, false, nil
}
