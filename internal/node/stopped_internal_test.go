package node

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

func TestAStoppedPartitionHasOneOfAFewReasons(t *testing.T) {
	t.Parallel()
	for want, errs := range map[string][]error{
		"":                      {nil},
		events.StoppedInputLost: {supervisor.ErrInputLost},
		events.StoppedLog:       {supervisor.ErrFold, supervisor.ErrPosition, ErrLog, ErrGap, fmt.Errorf("%w: %w", ErrLog, supervisor.ErrFold)},
		events.StoppedState:     {projector.ErrDamaged, projector.ErrRead, events.ErrRow, fmt.Errorf("%w: %w", ErrStore, supervisor.ErrInputLost)},
		events.StoppedLevel:     {fmt.Errorf("%w: %w", supervisor.ErrFold, events.ErrReaderTooOld)},
		events.StoppedClosed:    {supervisor.ErrClosed},
		events.StoppedOther:     {errors.New("new")},
	} {
		for _, err := range errs {
			require.Equal(t, want, stopReason(err), "%v", err)
		}
	}
}

// Of a stopped partition only live nodes are believed.
func TestNodesSayWhatHasStoppedAtOthers(t *testing.T) {
	t.Parallel()
	stopped := func(p int32) []events.StoppedPartition {
		return []events.StoppedPartition{{Partition: p, Reason: events.StoppedLog, Detail: "it is cut"}}
	}
	beat := func(age time.Duration, name string, p int32) seenHeartbeat {
		return seenHeartbeat{Presence: events.Presence{Kind: events.PresenceNode, Instance: name, SeenAt: 1, Stopped: stopped(p)}, at: time.Now().Add(-age)}
	}
	l := &liveness{seen: map[string]seenHeartbeat{"node/a": beat(time.Hour, "a", 1), "node/b": beat(0, "b", 2), "node/c": beat(0, "c", 2)}}
	node, _ := l.stopped(1)
	require.Empty(t, node)
	node, x := l.stopped(2)
	require.Equal(t, "b", node)
	require.Equal(t, stopped(2)[0], x)
	r := readiness{liveness: l}
	require.Equal(t, "log: it is cut (node b)", r.stopped(2))
	require.Empty(t, r.stopped(1))
	require.Equal(t, "b", clusterView{&r}.stoppedAt(2).Node)
	require.Nil(t, clusterView{&r}.stoppedAt(1))
}
