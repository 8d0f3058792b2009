package projector_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
	"github.com/stretchr/testify/require"
)

// A follower never needs the body of a definition; whoever opens the state after it reads it from its row.
func TestAFollowerKeepsNoBodyOfADefinition(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for range 2 {
		state := stored(t, s)
		var read []events.Record
		if state.Next == 0 {
			read = someLog(t)
		}
		require.NoError(t, projector.Fold(t.Context(), projector.Folding{
			State: state, TopicID: topic, Read: reading(read), Commit: committing(s), Evict: true,
		}))
		require.Equal(t, &events.Definition{Workflow: "ship", Hash: "h", Version: 1}, state.Definition("h"))
		body, err := state.DefinitionBody("h")
		require.NoError(t, err)
		require.JSONEq(t, `{"steps":{}}`, string(body))
	}
	require.NoError(t, s.Reset(partition))
	state := stored(t, s)
	require.Nil(t, state.Definition("h"))
}

// A row that is gone is damage of the store, and no definition without a body.
func TestADefinitionWhoseRowIsGoneIsDamage(t *testing.T) {
	t.Parallel()
	s := setup(t)
	require.NoError(t, projector.Fold(t.Context(), projector.Folding{
		State: stored(t, s), TopicID: topic, Read: reading(someLog(t)), Commit: committing(s),
	}))
	state := stored(t, s)
	require.NoError(t, s.Reset(partition))
	_, err := state.DefinitionBody("h")
	require.ErrorIs(t, err, projector.ErrDamaged)
}
