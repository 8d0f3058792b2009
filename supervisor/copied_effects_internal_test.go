package supervisor

import (
	"testing"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// A dead letter that the old namespace owed names the place there: the copy has another record at that offset, or none.
func TestAnOwedDeadLetterNamesThePlaceInTheOldNamespace(t *testing.T) {
	t.Parallel()
	c, err := NewCopying(Config{Partitions: 6, Node: events.CopyOwner, Namespace: "clinic", NamespaceID: uuid.Max, Entropy: func() (b [16]byte) { return b }}, nil, events.NewState(1, nil))
	require.NoError(t, err)
	list, err := c.OfFact(&events.Fact{
		Epoch: events.Epoch{N: 2, ID: "e"}, Sequence: 3, Time: 1000, Cause: events.CauseInput(events.Submissions, 1, 7), Body: &events.InputRejected{Reason: events.RejectSchema},
	}, 1)
	require.NoError(t, err)
	require.Len(t, list, 1)
	c.Complete(&list[0], "sagalog", &events.Record{Partition: 1, Offset: 7, Value: []byte("x")})
	letter := list[0].Record
	require.Equal(t, []string{"sagalog.submissions", "1", "7"}, []string{letter.Header(DeadTopic), letter.Header(DeadPartition), letter.Header(DeadOffset)})
	require.Equal(t, "clinic", c.cfg.Namespace)
}
