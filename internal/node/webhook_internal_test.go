package node

import (
	"math"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A position with as many outstanding messages as there can be, wherever they lie, fits into the metadata of a commit, and is read back as it was.
func TestAPositionOfTheWebhookIsReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &webhookStream{next: math.MaxInt64, log: authority{
			epoch: events.Epoch{N: rapid.Uint64Min(1).Draw(t, "n"), ID: "0123456789abcdef0123456789abcdef"}, next: rapid.Uint64().Draw(t, "sequence"),
			broken: rapid.Bool().Draw(t, "broken"), reader: rapid.IntRange(0, 1000).Draw(t, "reader"),
		}}
		if rapid.Bool().Draw(t, "none") {
			s.log = authority{}
		}
		for i := range rapid.IntRange(0, maxOutstanding).Draw(t, "outstanding") {
			s.outstanding = append(s.outstanding, &outstanding{offset: int64(i)})
		}
		at := s.position()
		require.LessOrEqual(t, len(at.Metadata), 4096)
		got := &webhookStream{}
		require.NoError(t, got.resume(at, time.Time{}))
		require.Equal(t, s, got)
	})
	for _, foreign := range []string{
		"", "member-1", "sagalog-webhook-1 1-a 1 0 0", "sagalog-webhook-2 1-a 1 0 0 ", "sagalog-webhook-1 1 1 0 0 ", "sagalog-webhook-1 1-a x 0 0 ", "sagalog-webhook-1 1-a 1 2 0 ",
		"sagalog-webhook-1 1-a 1 0 0 0", "sagalog-webhook-1 1-a 1 0 0 c", "sagalog-webhook-1 1-a 1 0 0 -1",
	} {
		require.Error(t, (&webhookStream{}).resume(kafka.Stored{Next: 11, Metadata: foreign}, time.Time{}), foreign)
	}
	require.NoError(t, (&webhookStream{}).resume(kafka.Stored{}, time.Time{}), "at the beginning nothing need be known")
}

// A log of right and late claims, and of facts of the current, earlier and unknown epochs, with gaps and repeats: a reader that only follows the epochs
// accepts the same records as the fold.
func TestTheWebhookAcceptsWhatTheFoldAccepts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state := events.NewState(0, nil)
		log := &authority{}
		epochs, ids := []events.Epoch{{}}, []string{"", "a", "b", "c", "d"}
		for offset := range int64(rapid.IntRange(1, 60).Draw(t, "records")) {
			f := &events.Fact{Time: events.Instant(1e6 + offset)}
			if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
				f.Body = &events.PartitionClaimed{Owner: "n", ID: rapid.SampledFrom(ids).Draw(t, "id"), Prev: rapid.SampledFrom([]string{state.Partition.Epoch.ID, "a", "x"}).Draw(t, "prev"),
					Reader: rapid.IntRange(0, 1).Draw(t, "reader")}
			} else {
				f.Epoch = rapid.SampledFrom([]events.Epoch{state.Partition.Epoch, epochs[len(epochs)-1], rapid.SampledFrom(epochs).Draw(t, "old"), {N: 9, ID: "z"}}).Draw(t, "epoch")
				if f.Epoch.N == 0 {
					f.Epoch = events.Epoch{N: 7, ID: "y"}
				}
				f.Sequence = state.Partition.NextSequence + rapid.SampledFrom([]uint64{0, 0, 0, 0, 1, math.MaxUint64}).Draw(t, "gap")
				f.Body = &events.TaskProcessed{}
				if rapid.IntRange(0, 9).Draw(t, "barrier") == 0 {
					f.Body = &events.VersionBarrier{Reader: rapid.IntRange(0, 1).Draw(t, "level")}
				} else if f.Epoch == state.Partition.Epoch {
					f.Body = &events.SettingsAdopted{Settings: events.DefaultSettings()}
				}
			}
			r, err := events.EncodeFact(f, 0, "/test")
			require.NoError(t, err)
			r.Offset = offset
			before := log.next
			got, err := log.fact(&r, func(events.Name) bool { return true })
			require.NoError(t, err)
			fate, err := state.Apply(f, offset)
			require.NoError(t, err)
			_, claim := f.Body.(*events.PartitionClaimed)
			if _, barrier := f.Body.(*events.VersionBarrier); !claim && !barrier {
				require.Equal(t, fate == events.FateAccepted, got != nil)
			}
			require.Equal(t, !claim && fate == events.FateAccepted, !claim && log.next != before)
			require.Equal(t, authorityOf(&state.Partition), *log)
			epochs = append(epochs, state.Partition.Epoch)
		}
	})
}

// A position that does not change is committed again, because brokers forget old ones.
func TestPositionsOfTheWebhookAreRenewed(t *testing.T) {
	t.Parallel()
	at := place{"sagalog.events", 3}
	w := &webhooks{left: kafka.Positions{}, streams: map[place]*webhookStream{at: {place: at, next: 7}}}
	now := time.Unix(1e9, 0)
	require.Equal(t, int64(7), w.toCommit(now)[at.topic][at.partition].Next)
	require.Empty(t, w.toCommit(now.Add(webhookRenew-1)))
	require.Equal(t, int64(7), w.toCommit(now.Add(webhookRenew))[at.topic][at.partition].Next)
	require.Empty(t, w.toCommit(now.Add(webhookRenew+1)))
}

// The log of a copied namespace begins with a carry, whose epoch is that of the copy.
func TestTheWebhookReadsTheLogOfACopy(t *testing.T) {
	t.Parallel()
	old := events.NewState(0, nil)
	old.Partition.Time = 1e6
	p, err := events.CopiedPartition([]*events.PartitionState{&old.Partition}, events.CopyTarget{Partitions: 1, Epoch: "copy"})
	require.NoError(t, err)
	begun, err := events.BeginCopied(&p, 0)
	require.NoError(t, err)
	log := &authority{}
	for offset, f := range []*events.Fact{begun, {Time: 1, Body: &events.PartitionClaimed{ID: "n", Prev: "copy", Owner: "n", Reader: 1}}} {
		r, err := events.EncodeFact(f, 0, "/sagalog/n")
		require.NoError(t, err)
		r.Offset = int64(offset)
		_, err = log.fact(&r, func(events.Name) bool { return true })
		require.NoError(t, err)
	}
	require.Equal(t, events.Epoch{N: 2, ID: "n"}, log.epoch)
}
