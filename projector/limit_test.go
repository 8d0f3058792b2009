package projector_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
	"github.com/stretchr/testify/require"
)

func TestLimitsAreReadWithTheirLinks(t *testing.T) {
	t.Parallel()
	s := setup(t)
	l := &ledger{t: t}
	l.claim("n1")
	asked := map[string][]string{"concurrency/pay/a": {"t1", "t2"}, "concurrency/pay/a/b": {"t3"}, "concurrency/pay/c": {"t4"}}
	for limit, tasks := range asked {
		for i, task := range tasks {
			ask := &events.PermitAsked{Limit: limit, Max: 1, Version: 1, Link: events.Link{Task: task, Incarnation: "1-a/1", Run: 1, N: 1}}
			b := &events.PermitsDecided{Limit: limit, Asked: ask}
			if i == 0 {
				b.Granted = &ask.Link
			}
			l.add("", b)
		}
	}
	require.NoError(t, projector.Fold(t.Context(), projector.Folding{State: stored(t, s), TopicID: topic, Read: reading(l.records), Commit: committing(s)}))
	p := s.Partition(partition)
	var names []string
	require.NoError(t, p.EachLimit(func(x *events.Limit) {
		names = append(names, x.Name)
		require.Len(t, x.Waiting(), len(asked[x.Name])-1, x.Name)
		require.Equal(t, 0, x.Free(0), x.Name)
	}))
	require.Equal(t, []string{"concurrency/pay/a", "concurrency/pay/a/b", "concurrency/pay/c"}, names)
	x, err := p.Limit("concurrency/pay/a")
	require.NoError(t, err)
	require.Equal(t, "t2", x.Next().Link.Task)
	x, err = p.Limit("concurrency/pay/b")
	require.NoError(t, err)
	require.Nil(t, x)
}
