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

// The sequence sorts as text, and continues when it needs more than the padded digits.
func TestSequencesSortAsText(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "000000000000", 17: "000000000017", 1e12: "1000000000000"} {
		f := &events.Fact{Epoch: events.Epoch{N: 1, ID: "a"}, Sequence: n, Time: testStart, Body: &events.TaskProcessed{}}
		r, err := events.EncodeFact(f, 0, testSource)
		require.NoError(t, err)
		require.Equal(t, want, r.Header(events.HeaderSequence))
		got, err := events.DecodeFact(&r)
		require.NoError(t, err)
		require.Equal(t, n, got.Sequence)
	}
}

// NamespaceCreated is in the topic of definitions, before every epoch. No partition accepts it as a fact.
func TestNoPartitionAcceptsNamespaceCreated(t *testing.T) {
	t.Parallel()
	body := &events.NamespaceCreated{ID: "n1", Partitions: 8, Format: events.FormatVersion}
	r, err := events.EncodeFact(&events.Fact{Time: testStart, Body: body}, 0, "/sagalog/definitions")
	require.NoError(t, err)
	require.Empty(t, r.Header(events.HeaderEpoch))
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
