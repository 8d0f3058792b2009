package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A decoded fact equals the original: encoding it again yields the same bytes.
func TestFactsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, e := range story(t).log {
		f, err := events.DecodeFact(&e.record)
		require.NoError(t, err)
		again, err := events.EncodeFact(f, testPartition, testSource)
		require.NoError(t, err)
		again.Topic, again.Offset = e.record.Topic, e.record.Offset
		require.Equal(t, e.record, again)
		require.Equal(t, e.fact.Position(), f.Position())
	}
}

func TestAFactIsNamedByItsPosition(t *testing.T) {
	t.Parallel()
	f := &events.Fact{Epoch: events.Epoch{N: 2, ID: "b1"}, Sequence: 17, Body: &events.TaskProcessed{}}
	require.Equal(t, "3/2-b1/17", events.FactID(f, 3))
	require.Equal(t, "3/claim/b1", events.FactID(&events.Fact{Body: &events.PartitionClaimed{ID: "b1"}}, 3))
	require.Equal(t, "0/namespace/n1", events.FactID(&events.Fact{Body: &events.NamespaceCreated{ID: "n1"}}, 0))
}

// The identifier of an epoch may hold dashes and slashes.
func TestThePositionOfAFactIsInItsID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "a-b", "a/b/7", "abcdefghijklmnop"} {
		f := &events.Fact{Epoch: events.Epoch{N: 12, ID: id}, Sequence: 1e12, Time: testStart, Body: &events.TaskProcessed{}}
		r, err := events.EncodeFact(f, 3, testSource)
		require.NoError(t, err)
		at, err := events.PositionOf(&r)
		require.NoError(t, err)
		require.Equal(t, f.Position(), at)
		got, err := events.DecodeFact(&r)
		require.NoError(t, err)
		require.Equal(t, f.Position(), got.Position())
	}
	_, err := events.PositionOf(&events.Record{Headers: headers(events.HeaderID, "7")})
	require.ErrorContains(t, err, "<partition>/<epoch>/<sequence>")
}

// NamespaceCreated is in the topic of definitions, before every epoch. No partition accepts it as a fact.
func TestNoPartitionAcceptsNamespaceCreated(t *testing.T) {
	t.Parallel()
	body := &events.NamespaceCreated{ID: "n1", Partitions: 8, Format: events.FormatVersion}
	r, err := events.EncodeFact(&events.Fact{Time: testStart, Body: body}, 0, "/sagalog/definitions")
	require.NoError(t, err)
	f, err := events.DecodeFact(&r)
	require.NoError(t, err)
	require.Equal(t, body, f.Body)
	fate, err := events.NewState(0, nil).Apply(f, 0)
	require.NoError(t, err)
	require.Equal(t, events.FateVoid, fate)
}

func TestAFactWithBrokenJSONIsNotEncoded(t *testing.T) {
	t.Parallel()
	_, err := events.EncodeFact(&events.Fact{Body: &events.StepCompleted{Output: raw("{")}}, 0, testSource)
	require.Error(t, err)
	_, err = events.NewBody("Nonsense")
	require.ErrorIs(t, err, events.ErrUnknownFact)
}
