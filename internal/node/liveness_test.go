package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

func beatOf(t *testing.T, p events.Presence) *events.Record {
	t.Helper()
	r, err := events.EncodePresence(p, events.Subject{ID: "b", Source: "/test", Time: events.At(time.Now())})
	require.NoError(t, err)
	return &r
}

func TestAnInstanceIsShownForAWhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var b node.Heartbeats
		b.Record(beatOf(t, instance("a", nil, nil)))
		b.Record(&events.Record{Value: []byte("nonsense")})
		<-time.After(node.ListedFor + time.Second)
		b.Record(beatOf(t, instance("b", nil, nil)))
		require.Len(t, b.Agents(), 1)
		require.Equal(t, "b", b.Agents()[0].Instance)
	})
}

// An agent with two slots gets no more than its window, and gets more when another instance joins.
func TestRunningAttemptsStayWithinTheCapacity(t *testing.T) {
	bubble(t, func(t *testing.T) {
		open := make(chan struct{})
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, order)
		w.hire(func(ctx context.Context, a agent.Attempt) error {
			<-open
			return nil
		}, agent.Concurrency(3))
		w.windowKnown(n, "stock")
		tasks := ids("t", 20)
		w.submit(tasks...)
		w.watch.await("some have started", func() bool { return started(w.watch) == 3 })
		synctest.Wait()
		w.watch.mu.Lock()
		running := started(w.watch)
		w.watch.mu.Unlock()
		require.Equal(t, 3, running)
		close(open)
		w.watch.ended(tasks...)
	})
}

func started(o *observer) (n int) {
	for _, s := range o.facts {
		if _, ok := s.fact.Body.(*events.StepStarted); ok {
			n++
		}
	}
	return n
}

func nodeBeat(name string, owned ...int32) events.Presence {
	return events.Presence{Kind: events.PresenceNode, Instance: name, Node: name, Partitions: map[string][]int32{"events": owned}}
}

// A node decides which senders are silent only while it keeps reading back its own heartbeats.
func TestOnlyANodeThatHearsItselfNoticesSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var b node.Heartbeats
		b.Self("me")
		begun := time.Now()
		silent := func() (names []string) {
			for _, m := range []string{"other", "unheard"} {
				if b.SilentNode(m, begun) {
					names = append(names, m)
				}
			}
			return names
		}
		alone := func(seconds int) {
			for range 2 * seconds {
				<-time.After(time.Second / 2)
				b.Record(beatOf(t, nodeBeat("me")))
			}
		}
		b.Record(beatOf(t, nodeBeat("me")))
		b.Record(beatOf(t, nodeBeat("other")))
		alone(2)
		require.Empty(t, silent(), "two seconds do not count as silence")
		b.Record(beatOf(t, nodeBeat("other")))
		alone(1)
		require.Equal(t, []string{"unheard"}, silent())
		require.False(t, b.SilentNode("newcomer", time.Now()), "it had no time to send a heartbeat")
		alone(2)
		require.Equal(t, []string{"other", "unheard"}, silent())
		b.Record(beatOf(t, nodeBeat("other")))
		require.Equal(t, []string{"unheard"}, silent())
		<-time.After(10 * time.Second)
		require.Empty(t, silent(), "it does not even hear itself, so it was paused or is cut off")
		b.Record(beatOf(t, nodeBeat("me")))
		alone(2)
		require.Empty(t, silent(), "the others get as much time as at the start")
		alone(1)
		require.Equal(t, []string{"other", "unheard"}, silent())
	})
}

func TestSilentAgentsAreNoticed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var b node.Heartbeats
		b.Self("me")
		b.Record(beatOf(t, nodeBeat("me")))
		well := instance("a", bank(4), map[string]string{"bank": events.Healthy})
		b.Record(beatOf(t, well))
		require.Empty(t, b.SilentAgents())
		for range 6 {
			<-time.After(time.Second / 2)
			b.Record(beatOf(t, nodeBeat("me")))
		}
		require.Equal(t, []string{"a"}, b.SilentAgents())
		require.Equal(t, map[string]string{"bank": api.HealthSilent}, b.Agents()[0].Health)
		b.Record(beatOf(t, well))
		require.Empty(t, b.SilentAgents())
		require.Equal(t, well.Health, b.Agents()[0].Health)
	})
}

func TestTheLatestLiveClaimantIsTheOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var b node.Heartbeats
		require.Empty(t, b.OwnerOf(1))
		b.Record(beatOf(t, nodeBeat("one", 0, 1)))
		<-time.After(time.Second)
		b.Record(beatOf(t, nodeBeat("two", 1)))
		require.Equal(t, "one", b.OwnerOf(0))
		require.Equal(t, "two", b.OwnerOf(1))
		bye := beatOf(t, nodeBeat("two", 1))
		bye.Value = nil
		b.Record(bye)
		require.Equal(t, "one", b.OwnerOf(1), "a goodbye takes effect at once")
		b.Self("one")
		require.False(t, b.SilentNode("two", time.Time{}), "a node that said goodbye is leaving and not silent")
		<-time.After(node.SilentAfter)
		require.Empty(t, b.OwnerOf(1), "reads are not passed to a silent node")
	})
}
