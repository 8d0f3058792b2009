package past_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/past"
	"github.com/stretchr/testify/require"
)

// A request that comes in front of others does not change their names.
func TestEntriesOfListsAreNamedByTheirIDs(t *testing.T) {
	t.Parallel()
	one := events.JudgedRequest{ID: "r-2", Verb: events.RequestCancel}
	before, err := past.FieldsOf(&events.Task{ID: "t", Requests: []events.JudgedRequest{one}})
	require.NoError(t, err)
	require.Equal(t, `"cancel"`, before["requests.r-2.verb"])
	after, err := past.FieldsOf(&events.Task{ID: "t", Requests: []events.JudgedRequest{{ID: "r-1", Verb: events.RequestCancel}, one}, Kept: []events.KeptSignal{{Request: "s-1", Signal: "go"}}})
	require.NoError(t, err)
	for name, value := range before {
		require.Equal(t, value, after[name], name)
	}
	require.Equal(t, `"go"`, after["kept.s-1.signal"])
	unnamed, err := past.FieldsOf(&events.Task{ID: "t", Held: []events.Request{{Kind: "x"}, {Kind: "y"}}})
	require.NoError(t, err)
	require.Equal(t, `"y"`, unnamed["held.1.kind"])
}
