package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
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
		var b node.Beats
		b.Take(beatOf(t, instance("a", nil, nil)))
		b.Take(&events.Record{Value: []byte("nonsense")})
		<-time.After(node.ListedFor + time.Second)
		b.Take(beatOf(t, instance("b", nil, nil)))
		require.Len(t, b.Agents(), 1)
		require.Equal(t, "b", b.Agents()[0].Instance)
	})
}

// An agent with two places gets no more than its window, and more when another instance comes.
func TestAttemptsThatRunKeepWithinThePublishedCapacity(t *testing.T) {
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

// Who is silent is said only by a node whose own beats came back all the time.
func TestSilenceIsNoticedByWhoHearsItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var b node.Beats
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
				b.Take(beatOf(t, nodeBeat("me")))
			}
		}
		b.Take(beatOf(t, nodeBeat("me")))
		b.Take(beatOf(t, nodeBeat("other")))
		alone(2)
		require.Empty(t, silent(), "two seconds are no silence")
		b.Take(beatOf(t, nodeBeat("other")))
		alone(1)
		require.Equal(t, []string{"unheard"}, silent())
		require.False(t, b.SilentNode("newcomer", time.Now()), "it had no time to be heard")
		alone(2)
		require.Equal(t, []string{"other", "unheard"}, silent())
		b.Take(beatOf(t, nodeBeat("other")))
		require.Equal(t, []string{"unheard"}, silent())
		<-time.After(10 * time.Second)
		require.Empty(t, silent(), "it hears not even itself: it was paused, or is cut off")
		b.Take(beatOf(t, nodeBeat("me")))
		alone(2)
		require.Empty(t, silent(), "the others get as long as at the beginning")
		alone(1)
		require.Equal(t, []string{"other", "unheard"}, silent())
	})
}

func TestSilentAgentsAreNoticedLikewise(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var b node.Beats
		b.Self("me")
		b.Take(beatOf(t, nodeBeat("me")))
		b.Take(beatOf(t, instance("a", nil, nil)))
		require.Empty(t, b.SilentAgents())
		for range 6 {
			<-time.After(time.Second / 2)
			b.Take(beatOf(t, nodeBeat("me")))
		}
		require.Equal(t, []string{"a"}, b.SilentAgents())
		b.Take(beatOf(t, instance("a", nil, nil)))
		require.Empty(t, b.SilentAgents())
	})
}

func TestTheOwnerIsWhoSaidSoLastAndLives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var b node.Beats
		require.Empty(t, b.OwnerOf(1))
		b.Take(beatOf(t, nodeBeat("one", 0, 1)))
		<-time.After(time.Second)
		b.Take(beatOf(t, nodeBeat("two", 1)))
		require.Equal(t, "one", b.OwnerOf(0))
		require.Equal(t, "two", b.OwnerOf(1))
		bye := beatOf(t, nodeBeat("two", 1))
		bye.Value = nil
		b.Take(bye)
		require.Equal(t, "one", b.OwnerOf(1), "a goodbye is heard at once")
		b.Self("one")
		require.False(t, b.SilentNode("two", time.Time{}), "who said goodbye is leaving, and not silent")
		<-time.After(node.SilentAfter)
		require.Empty(t, b.OwnerOf(1), "a silent one owns nothing that anybody could read there")
	})
}
