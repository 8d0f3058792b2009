package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

func instance(name string, capacity map[string]int, health map[string]string) events.Presence {
	return events.Presence{Kind: events.PresenceAgent, Instance: name, Capacity: capacity, Health: health}
}

func bank(n int) map[string]int { return map[string]int{"bank": n} }

func TestWindowsFollowThePublishedCapacity(t *testing.T) {
	sick, back := map[string]string{"bank": events.Unhealthy}, map[string]string{"bank": events.Degraded}
	idle := instance("b", bank(8), nil)
	idle.Partitions = map[string][]int32{"bank": nil}
	for name, c := range map[string]struct {
		beats   []events.Presence
		silence time.Duration
		// want holds the windows of the four partitions, the largest first.
		want []int
	}{
		"nobody":                          {nil, 0, nil},
		"one":                             {[]events.Presence{instance("a", bank(16), nil)}, 0, []int{4, 4, 4, 4}},
		"not divisible":                   {[]events.Presence{instance("a", bank(18), nil)}, 0, []int{5, 5, 4, 4}},
		"at least one for each partition": {[]events.Presence{instance("a", bank(2), nil)}, 0, []int{1, 1, 1, 1}},
		"two":                             {[]events.Presence{instance("a", bank(16), nil), instance("b", bank(8), nil)}, 0, []int{6, 6, 6, 6}},
		"the latest heartbeat counts":     {[]events.Presence{instance("a", bank(16), nil), instance("a", bank(4), nil)}, 0, []int{1, 1, 1, 1}},
		"an unhealthy one gives none":     {[]events.Presence{instance("a", bank(16), sick), instance("b", bank(8), nil)}, 0, []int{2, 2, 2, 2}},
		"all unhealthy: one tries":        {[]events.Presence{instance("a", bank(16), sick)}, 0, []int{1, 1, 1, 1}},
		"one that probes gives one":       {[]events.Presence{instance("a", bank(16), back), instance("b", bank(8), nil)}, 0, []int{3, 2, 2, 2}},
		"one without partitions":          {[]events.Presence{instance("a", bank(16), nil), idle}, 0, []int{4, 4, 4, 4}},
		"a node is not an agent":          {[]events.Presence{{Kind: events.PresenceNode, Instance: "a", Capacity: bank(9)}}, 0, nil},
		"just heard":                      {[]events.Presence{instance("a", bank(16), nil)}, node.AgentSilentAfter, []int{4, 4, 4, 4}},
		"silent for too long":             {[]events.Presence{instance("a", bank(16), nil)}, node.AgentSilentAfter + 1, nil},
		"a negative capacity is zero":     {[]events.Presence{instance("a", bank(-50), nil), instance("b", bank(8), nil)}, 0, []int{2, 2, 2, 2}},
		"an absurdly large capacity":      {[]events.Presence{instance("a", bank(1<<62), nil), instance("b", bank(1<<62), nil), instance("c", bank(1<<62), nil)}, 0, []int{75_000, 75_000, 75_000, 75_000}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var b node.Heartbeats
				b.Self("me")
				b.Record(beatOf(t, nodeBeat("me")))
				for _, p := range c.beats {
					b.Record(beatOf(t, p))
				}
				for end := time.Now().Add(c.silence); time.Now().Before(end); {
					<-time.After(min(time.Until(end), time.Second/2))
					b.Record(beatOf(t, nodeBeat("me")))
				}
				var got []int
				for _, w := range b.Windows(4) {
					if n, ok := w["bank"]; ok {
						got = append(got, n)
					}
				}
				slices.Sort(got)
				slices.Reverse(got)
				require.Equal(t, c.want, got)
			})
		})
	}
}

// An operation is offered while a live instance that accepts work offers it. While this node cannot read heartbeats, the
// last ones stay in force.
func TestOperationsAreOfferedByLiveInstances(t *testing.T) {
	both, doer, undoer := instance("a", bank(8), nil), instance("b", bank(8), nil), instance("c", bank(8), nil)
	doer.Operations = map[string][]events.Operation{"bank": {events.Do}}
	undoer.Operations = map[string][]events.Operation{"bank": {events.Undo}}
	named := instance("g", bank(8), nil)
	named.Functions = map[string]map[string][]events.Operation{"bank": {"capture": {events.Do, events.Undo}}}
	sick, leaving, unassigned := doer, instance("e", bank(0), nil), instance("f", bank(8), nil)
	sick.Health = map[string]string{"bank": events.Unhealthy}
	unassigned.Partitions = map[string][]int32{"bank": {}}
	for name, c := range map[string]struct {
		beats    []events.Presence
		do, undo bool
	}{
		"nobody":                                {nil, false, false},
		"one that lists no operations":          {[]events.Presence{both}, true, true},
		"one that only does":                    {[]events.Presence{doer}, true, false},
		"one that only undoes":                  {[]events.Presence{undoer}, false, true},
		"one of each":                           {[]events.Presence{doer, undoer}, true, true},
		"its breaker is open":                   {[]events.Presence{sick}, true, false},
		"one that stops":                        {[]events.Presence{leaving}, false, false},
		"one that reads no partition":           {[]events.Presence{unassigned}, false, false},
		"one whose operations have names":       {[]events.Presence{named}, false, false},
		"another agent":                         {[]events.Presence{instance("a", map[string]int{"mail": 8}, nil)}, false, false},
		"one that stops, and one that does not": {[]events.Presence{leaving, both}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var b node.Heartbeats
				b.Self("me")
				for _, p := range c.beats {
					b.Record(beatOf(t, p))
				}
				check := func(do, undo bool) {
					t.Helper()
					gotDo, gotUndo := b.Offered("bank")
					require.Equal(t, [2]bool{do, undo}, [2]bool{gotDo, gotUndo})
				}
				hear := func(seconds int) {
					for range 2 * seconds {
						b.Record(beatOf(t, nodeBeat("me")))
						<-time.After(time.Second / 2)
					}
				}
				check(c.do, c.undo)
				<-time.After(10 * time.Minute)
				check(c.do, c.undo)
				hear(2)
				check(c.do, c.undo) // after the gap, the instances get as much time as at the start
				hear(2)
				check(false, false)
			})
		})
	}
}

// The windows of all partitions add up to the capacity, whatever it is, unless there are more partitions than slots.
func TestWindowsAddUpToTheCapacity(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for range 300 {
			partitions, capacity := int32(1+rand.IntN(64)), rand.IntN(200)
			var b node.Heartbeats
			b.Record(beatOf(t, instance("a", map[string]int{"bank": capacity, "mail": 7}, nil)))
			sum := 0
			for _, w := range b.Windows(partitions) {
				require.Positive(t, w["bank"])
				sum += w["bank"]
			}
			require.Equal(t, max(capacity, int(partitions)), sum, "%d places, %d partitions", capacity, partitions)
		}
	})
}

func TestTargetsAreInstancesThatTakeWork(t *testing.T) {
	at := func(p events.Presence, partitions ...int32) events.Presence {
		p.Partitions = map[string][]int32{"bank": partitions}
		return p
	}
	busy := func(p events.Presence, n int) events.Presence {
		p.InFlight = bank(n)
		return p
	}
	sick, back := map[string]string{"bank": events.Unhealthy}, map[string]string{"bank": events.Degraded}
	a, b := at(instance("a", bank(8), nil), 0, 2), at(instance("b", bank(8), nil), 3, 1)
	ta := supervisor.Target{Instance: "a", Partitions: []int32{0, 2}, Capacity: 8, Do: true, Undo: true}
	tb := supervisor.Target{Instance: "b", Partitions: []int32{1, 3}, Capacity: 8, Do: true, Undo: true}
	all := supervisor.Target{Instance: "a", Partitions: []int32{0, 1, 2, 3}, Capacity: 8, Do: true, Undo: true}
	full, asks, ill := tb, tb, tb
	full.Full, asks.Capacity, asks.Probe, ill.Capacity = true, 1, true, 0
	for name, c := range map[string]struct {
		beats []events.Presence
		want  []supervisor.Target
	}{
		"two":                                    {[]events.Presence{b, a}, []supervisor.Target{ta, tb}},
		"one reads all partitions":               {[]events.Presence{at(instance("a", bank(8), nil), 0, 1, 2, 3)}, []supervisor.Target{all}},
		"one, and it reads only some partitions": {[]events.Presence{a}, []supervisor.Target{ta}},
		"one is full":                            {[]events.Presence{a, busy(b, 8)}, []supervisor.Target{ta, full}},
		"one is sick":                            {[]events.Presence{a, at(instance("b", bank(8), sick), 1, 3)}, []supervisor.Target{ta, ill}},
		"one probes its service":                 {[]events.Presence{a, at(instance("b", bank(8), back), 1, 3)}, []supervisor.Target{ta, asks}},
		"one leaves":                             {[]events.Presence{a, at(instance("b", bank(0), nil))}, []supervisor.Target{ta}},
		"one has no partition":                   {[]events.Presence{a, at(instance("b", bank(8), nil))}, []supervisor.Target{ta}},
		"one does not say what it reads":         {[]events.Presence{a, instance("b", bank(8), nil)}, nil},
		"partitions that do not exist":           {[]events.Presence{a, at(instance("b", bank(8), nil), 9, 3, -1, 1, 3)}, []supervisor.Target{ta, tb}},
		"all are sick":                           {[]events.Presence{at(instance("b", bank(8), sick), 1, 3)}, []supervisor.Target{ill}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var beats node.Heartbeats
				for _, p := range c.beats {
					beats.Record(beatOf(t, p))
				}
				require.Equal(t, c.want, beats.Targets(4, "bank"))
			})
		})
	}
}

// A slow instance gets little work and a sick one gets none, and all tasks end in time.
func TestWorkIsRoutedToTheInstanceThatCanTakeIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		w.kinds = []string{"stock"}
		n := w.node(t.TempDir())
		w.apply(n, single("w", 1))
		var mu sync.Mutex
		ran := map[string]int{}
		serve := func(name string, d time.Duration) func(context.Context, agent.Attempt) error {
			return func(ctx context.Context, _ agent.Attempt) error {
				mu.Lock()
				ran[name]++
				mu.Unlock()
				<-time.After(d)
				return nil
			}
		}
		w.hire(serve("slow", 3*time.Second), agent.Concurrency(16))
		w.hire(serve("quick", 10*time.Millisecond), agent.Concurrency(16))
		w.targetsKnown(n, "stock", 2)
		tasks := ids("t", 400)
		w.urge(0, tasks...)
		w.watch.ended(tasks...)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, 400, ran["slow"]+ran["quick"], "each attempt runs once and none times out: %v", ran)
		require.Less(t, ran["slow"], 80, "%v", ran)
		require.NoError(t, n.stop())
		w.watch.verify()
	})
}

// Ten tasks of high priority arrive behind a backlog, and run before the rest of it.
func TestUrgentTasksOvertakeABacklog(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		w.kinds = []string{"stock"}
		n := w.node(t.TempDir())
		w.apply(n, single("w", 1))
		var mu sync.Mutex
		var order []string
		open := make(chan struct{})
		w.hire(func(ctx context.Context, a agent.Attempt) error {
			mu.Lock()
			order = append(order, a.Task)
			mu.Unlock()
			<-open
			return nil
		}, agent.Concurrency(4))
		w.windowKnown(n, "stock")
		backlog, urgent := ids("t", 3_000), ids("u", 10)
		w.urge(0, backlog...)
		w.accepted(n, int64(len(backlog)))
		w.urge(10, urgent...)
		w.accepted(n, int64(len(backlog)+len(urgent)))
		close(open)
		w.watch.ended(append(urgent, backlog...)...)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		// They run right after the four that were already running. Four tasks that start together may begin in any
		// order.
		require.Subset(t, order[4:4+len(urgent)+3], urgent)
		require.NoError(t, n.stop())
		w.watch.verify()
	})
}

// urge submits tasks with the given priority.
func (w *world) urge(priority int, names ...string) {
	w.t.Helper()
	var list []events.Record
	for _, id := range names {
		list = append(list, events.Record{Key: []byte(id), Value: fmt.Appendf(nil, `{"workflow":"w","priority":%d}`, priority)})
	}
	w.produce(w.topics.Submissions(), -1, list...)
}

// accepted waits until this many tasks are live in partition 0.
func (w *world) accepted(n *process, live int64) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	_, err := n.Store().Wait(ctx, 0, func(i projector.Info) bool { return i.Live == live })
	require.NoError(w.t, err)
}

// targetsKnown waits until a node has heard from this many instances of an agent that read some of its work.
func (w *world) targetsKnown(n *process, name string, instances int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for {
		list, err := n.ClusterView().Agents(ctx)
		require.NoError(w.t, err)
		reading := 0
		for _, a := range list {
			if len(a.Partitions[name]) > 0 {
				reading++
			}
		}
		if reading == instances {
			<-time.After(time.Second) // until the owners know the targets
			return
		}
		w.pause(ctx, "beats of "+name)
	}
}
