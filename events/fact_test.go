package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A fact that was decoded says what the encoded one said: its record has the same bytes again.
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

func TestFactIDs(t *testing.T) {
	t.Parallel()
	f := &events.Fact{Epoch: events.Epoch{N: 2, ID: "b1"}, Sequence: 17, Body: &events.TaskProcessed{}}
	require.Equal(t, "3/2-b1/17", events.FactID(f, 3))
	require.Equal(t, "3/claim/b1", events.FactID(&events.Fact{Body: &events.PartitionClaimed{ID: "b1"}}, 3))
	require.Equal(t, "0/namespace/n1", events.FactID(&events.Fact{Body: &events.NamespaceCreated{ID: "n1"}}, 0))
}

// The sequence sorts as text, and goes on where its digits end.
func TestSequenceHeader(t *testing.T) {
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

// NamespaceCreated stands in definitions, before every epoch; no partition takes it for a fact.
func TestNamespaceCreated(t *testing.T) {
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

func TestFactsThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	_, err := events.EncodeFact(&events.Fact{Body: &events.StepCompleted{Output: raw("{")}}, 0, testSource)
	require.Error(t, err)
	_, err = events.NewBody("Nonsense")
	require.ErrorIs(t, err, events.ErrUnknownFact)
}
