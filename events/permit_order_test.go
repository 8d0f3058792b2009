package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// Two attempts to do a step wait for the permit of a named limit. An attempt to undo one asks after them, and gets it first, although both have a
// higher priority.
func TestUndosGetPermitsFirst(t *testing.T) {
	t.Parallel()
	const limit = "limit/bank"
	w := newScribe(t)
	w.claim("a0", "")
	w.write("", &events.LimitAdopted{Limit: limit, Offset: 20, Max: 1}, cause(events.CauseDefinition(20)))
	ask := func(task string, op events.Operation, priority int) *events.PermitAsked {
		return &events.PermitAsked{Limit: limit, Priority: priority, Link: events.Link{Task: task, Incarnation: "i", Run: 1, Path: "charge", Operation: op, N: 1}}
	}
	holder, first, second, undo := ask("a", events.Do, 0), ask("b", events.Do, 3), ask("c", events.Do, 9), ask("d", events.Undo, 0)
	w.write("", &events.PermitsDecided{Limit: limit, Asked: holder, Granted: &holder.Link})
	for _, a := range []*events.PermitAsked{first, second} {
		w.write("", &events.PermitsDecided{Limit: limit, Asked: a})
	}
	require.Equal(t, undo.Link, *w.state.Limits.Get(limit).NextWith(undo), "before it is known")
	w.write("", &events.PermitsDecided{Limit: limit, Asked: undo})
	require.Equal(t, undo.Link, *w.state.Limits.Get(limit).NextWith(ask("e", events.Do, 9)), "a do that asks does not pass it")
	for _, want := range []*events.PermitAsked{undo, second, first} {
		require.Equal(t, want.Link, w.state.Limits.Get(limit).Next().Link)
		gone := holder.Link
		w.write("", &events.PermitsDecided{Limit: limit, Released: &gone, Granted: &want.Link})
		holder = want
	}
}
