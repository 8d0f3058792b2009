package api

import (
	"context"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// LiveStates are those in which a task may wait for something. A list by what tasks wait for looks at these alone, since every task that it looks
// at is read whole.
var LiveStates = []events.TaskState{events.TaskStatePending, events.TaskStateProcessing, events.TaskStateUndoing, events.TaskStateError}

// waits says that the query selects tasks by what they wait for.
func (q *Query) waits() bool { return q.WaitingFor != "" || q.Agent != "" }

// waitsAs says whether a task waits for what the query selects.
func (s *lists) waitsAs(ctx context.Context, q *Query, t *events.Task, l look) (bool, error) {
	if !q.waits() {
		return true, nil
	}
	waits, err := s.documents.waiting(ctx, t, l)
	return slices.ContainsFunc(waits, func(w WaitingDocument) bool {
		return (q.WaitingFor == "" || w.Kind == q.WaitingFor) && (q.Agent == "" || w.agent == q.Agent)
	}), err
}

// setWaits reads the parameters of what tasks wait for. Without a state the list has live tasks only.
func (q *Query) setWaits(in *ListQuery, fault func(parameter, format string, args ...any)) {
	q.WaitingFor, q.Agent = events.Waiting(in.Waiting), in.Agent
	if kinds := events.Waitings(); in.Waiting != "" && !slices.Contains(kinds, q.WaitingFor) {
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = string(k)
		}
		fault("waiting_for", "is not a kind of waiting; %s", events.Suggest(in.Waiting, names))
	}
	if q.waits() && len(q.States) == 0 {
		q.States = LiveStates
	}
}
