package projector_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

func TestCheckAnchor(t *testing.T) {
	t.Parallel()
	record := events.Record{Offset: 41, LeaderEpoch: 2, Key: []byte("a"), Value: []byte(`{"x":1}`)}
	other := record
	other.Value = []byte(`{"x":2}`)
	broken := errors.New("broken")
	anchor := projector.AnchorOf(topic, &record)
	for name, c := range map[string]struct {
		topic projector.TopicID
		found events.Record
		lost  bool
		err   error
		want  projector.Difference
	}{
		"the same record":                           {topic: topic, found: record},
		"the same, under a later leader":            {topic: topic, found: events.Record{Offset: 41, LeaderEpoch: 9, Key: record.Key, Value: record.Value}},
		"the topic was recreated":                   {topic: projector.TopicID{9}, found: record, want: projector.TopicRecreated},
		"a log that ends before the record":         {topic: topic, lost: true, want: projector.RecordLost},
		"a log that lost the record and grew again": {topic: topic, found: other, want: projector.RecordOther},
		"a broker that gives no answer":             {topic: topic, err: broken},
		"another key with the same result":          {topic: topic, found: events.Record{Value: record.Value}, want: projector.RecordOther},
	} {
		err := projector.Check(anchor, c.topic, func(offset int64) (events.Record, bool, error) {
			require.Equal(t, int64(41), offset)
			return c.found, !c.lost, c.err
		})
		if c.want == "" {
			require.ErrorIs(t, err, c.err, name)
			continue
		}
		require.ErrorIs(t, err, projector.ErrAnchor, name)
		var typed *projector.AnchorError
		require.ErrorAs(t, err, &typed, name)
		require.Equal(t, c.want, typed.Difference, name)
		require.ErrorContains(t, err, "offset 41", name)
	}
	require.NoError(t, projector.Check(projector.Anchor{}, topic, nil), "an empty state matches every log")
}

func TestTopicIDIsText(t *testing.T) {
	t.Parallel()
	b, err := topic.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "01020300000000000000000000000000", string(b))
	var id projector.TopicID
	require.NoError(t, id.UnmarshalText(b))
	require.Equal(t, topic, id)
	for _, bad := range []string{"", "01", string(b) + "00", "zz020300000000000000000000000000"} {
		require.Error(t, id.UnmarshalText([]byte(bad)), bad)
	}
}
