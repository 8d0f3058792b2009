package verify_test

import (
	"context"
	"slices"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

// facts is a log with one topic of one partition, whose first record has the offset start.
type facts struct {
	t       *testing.T
	start   int64
	records []events.Record
}

func (l *facts) Bounds(_ context.Context, topic string) ([]verify.Bounds, error) {
	if topic != "x.events" {
		return nil, nil
	}
	return []verify.Bounds{{Start: l.start, End: l.start + int64(len(l.records))}}, nil
}

func (l *facts) Read(_ context.Context, s verify.Span, yield func(events.Record) error) error {
	for _, r := range l.records[s.From-l.start : s.To-l.start] {
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

func (l *facts) add(epoch events.Epoch, sequence uint64, task string, body events.Body) {
	f := &events.Fact{Epoch: epoch, Sequence: sequence, Task: task, Time: 1, Body: body}
	r, err := events.EncodeFact(f, 0, "/x/events/0/n1")
	require.NoError(l.t, err)
	r.Topic, r.Offset = "x.events", l.start+int64(len(l.records))
	l.records = append(l.records, r)
}

func (l *facts) historyOf(task string) (offsets []int64, bounds verify.Bounds) {
	bounds, err := verify.History(l.t.Context(), verify.Search{Log: l, Topic: "x.events", Task: task}, func(r events.Record, owner string) error {
		require.Equal(l.t, "n1", owner)
		offsets = append(offsets, r.Offset)
		return nil
	})
	require.NoError(l.t, err)
	return offsets, bounds
}

// A log in which a task is forgotten and its ID used again, with void records between them.
func TestTheLogHasTheHistoryOfForgottenTasks(t *testing.T) {
	t.Parallel()
	a, b := events.Epoch{N: 1, ID: "a"}, events.Epoch{N: 2, ID: "b"}
	whole := &facts{t: t}
	whole.add(events.Epoch{}, 0, "", &events.PartitionClaimed{ID: "a", Owner: "n1", Reader: 1})
	whole.add(a, 0, "t", &events.Submitted{})
	whole.add(a, 1, "u", &events.Submitted{})
	whole.add(a, 2, "t", &events.TaskProcessed{})
	whole.add(events.Epoch{}, 0, "", &events.PartitionClaimed{ID: "b", Prev: "a", Owner: "n1", Reader: 1})
	whole.add(a, 3, "t", &events.TaskParked{}) // void: its epoch is over
	whole.add(b, 0, "", &events.TasksSwept{Tasks: []string{"t"}})
	whole.add(b, 1, "t", &events.Submitted{})
	whole.add(b, 3, "t", &events.TaskUndone{}) // void: it comes after a gap

	offsets, bounds := whole.historyOf("t")
	require.Equal(t, []int64{1, 3, 7}, offsets)
	require.Equal(t, verify.Bounds{End: 9}, bounds)
	offsets, _ = whole.historyOf("v")
	require.Empty(t, offsets)

	for cut, want := range map[int][]int64{2: {3, 7}, 4: {7}, 6: {7}} {
		rest := &facts{t: t, start: int64(cut), records: slices.Clone(whole.records[cut:])}
		offsets, bounds := rest.historyOf("t")
		require.Equal(t, want, offsets, "cut at %d", cut)
		require.Equal(t, int64(cut), bounds.Start)
	}
	_, err := verify.History(t.Context(), verify.Search{Log: whole, Topic: "y.events", Task: "t"}, nil)
	require.ErrorContains(t, err, "there is no topic y.events")
}
