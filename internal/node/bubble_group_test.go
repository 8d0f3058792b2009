//go:build synctests

package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// A member dies before it receives the answer to its join. The group gives it a share of the partitions anyway, and
// must notice its death after a session timeout. Which member leads the group is random, and if the leader dies the
// group notices at once, so the test uses several groups.
func TestFaultAMemberThatDiesWhileJoiningLosesItsShare(t *testing.T) {
	for name, brokers := range map[string]func(t *testing.T) *world{
		"the embedded broker": func(t *testing.T) *world { return setup(t, 2) },
		"several brokers": func(t *testing.T) *world {
			w, _ := setupFake(t, 2, 2)
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := brokers(t)
				kafkatest.Create(t, w.cluster, w.topics.WorkSpec("stock", 2))
				for p := range int32(2) {
					w.produce(w.topics.Work("stock"), p, events.Record{Key: []byte("k")})
				}
				for i := range 8 {
					took := w.dieJoining(fmt.Sprint("crew-", i))
					t.Logf("both partitions were read after %s", took)
					require.Less(t, took, 40*time.Second, "three session timeouts and some more")
				}
			})
		})
	}
}

// dieJoining kills one member of a group, which delays the joins of the next two members until its session times out.
// Then it kills the third member during its join, and returns when the second one has read all partitions.
func (w *world) dieJoining(group string) time.Duration {
	first, own := w.member(group, "first")
	for len(first.Assigned()) == 0 {
		<-time.After(time.Millisecond)
	}
	own.cut()
	first.Close()
	begun := time.Now()
	second, _ := w.member(group, "second")
	defer second.Close()
	w.joined(group, 2)
	third, own := w.member(group, "third")
	w.joined(group, 3)
	own.cut()
	third.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	for read := map[int32]bool{}; len(read) < 2; {
		records, err := second.Poll(ctx, 10)
		require.NoError(w.t, ctx.Err(), "a partition is not read: %v", err)
		for _, r := range records {
			read[r.Partition] = true
		}
	}
	return time.Since(begun)
}

func (w *world) member(group, name string) (*kafka.Group, *network) {
	own := w.way()
	cluster, err := kafka.Connect(reach{w.broker, own}.ClusterConfig())
	require.NoError(w.t, err)
	g, err := kafka.NewGroup(cluster, kafka.GroupConfig{Group: group, Topics: []string{w.topics.Work("stock")}, InstanceID: name})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		own.cut()
		g.Close()
		cluster.Close()
	})
	return g, own
}

// joined waits until this number of members have asked to join the group.
func (w *world) joined(group string, members int) {
	for {
		<-time.After(time.Millisecond)
		names, err := w.cluster.StaticMembers(w.t.Context(), group)
		require.NoError(w.t, err)
		if len(names) == members {
			return
		}
	}
}
