package supervisor

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// oracle is the simplest implementation of the ready list: a heap and a set.
type oracle struct {
	heap plainHeap
	have map[events.Ready]bool
}

type plainHeap []events.Ready

func (h plainHeap) Len() int           { return len(h) }
func (h plainHeap) Less(i, j int) bool { return h[i].Before(h[j]) }
func (h plainHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *plainHeap) Push(x any)        { *h = append(*h, x.(events.Ready)) }
func (h *plainHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func (o *oracle) insert(r events.Ready) bool {
	if o.have[r] {
		return false
	}
	o.have[r] = true
	heap.Push(&o.heap, r)
	return true
}

func (o *oracle) pop() events.Ready {
	r := heap.Pop(&o.heap).(events.Ready)
	delete(o.have, r)
	return r
}

func (o *oracle) cut(keep int) {
	var first []events.Ready
	for range keep {
		first = append(first, o.pop())
	}
	*o = oracle{have: map[events.Ready]bool{}}
	for _, r := range first {
		o.insert(r)
	}
}

func TestAReadyListIsAHeapWithoutDuplicates(t *testing.T) {
	if testing.Short() {
		t.Skip("an owner runs on one goroutine, so the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		var list readyList
		plain := oracle{have: map[events.Ready]bool{}}
		tasks := 1 + random.IntN(60)
		for range 600 {
			switch n := random.IntN(10); {
			case n < 5+random.IntN(2):
				r := events.Ready{
					Task: fmt.Sprint("t", random.IntN(tasks)), Path: fmt.Sprint("s", random.IntN(3)), Agent: "a",
					Operation: events.Do, Priority: random.IntN(3), Since: events.Instant(random.IntN(5)),
				}
				if random.IntN(5) == 0 {
					r.Operation = events.Undo
				}
				require.Equal(t, plain.insert(r), list.insert(&r), "seed %d", seed)
			case n < 9 && list.len() > 0:
				require.Equal(t, plain.pop(), list.pop(), "seed %d", seed)
			case list.len() > 1:
				keep := 1 + random.IntN(list.len())
				plain.cut(keep)
				list.cut(keep)
			}
			require.Equal(t, plain.heap.Len(), list.len(), "seed %d", seed)
			require.LessOrEqual(t, len(list.places), 600)
		}
		for list.len() > 0 {
			require.Equal(t, plain.pop(), list.pop(), "seed %d", seed)
		}
	}
}

// benchReady is the next step of the i-th task.
func benchReady(i, priority int) events.Ready {
	return events.Ready{
		Task: fmt.Sprintf("task-%08d", i), Path: "reserve", Operation: events.Do, Agent: "stock",
		Since: events.Instant(1_800_000_000_000 + i/10), Priority: priority,
	}
}

// The queue of an agent with this many waiting attempts: add one (pushed twice, as the owner does), take one.
func BenchmarkQueue(b *testing.B) {
	for name, backlog := range map[string]int{"empty": 0, "backlog": 6000} {
		b.Run(name, func(b *testing.B) {
			q := queue{limit: 4096}
			list := make([]events.Ready, 1<<16)
			for i := range list {
				list[i] = benchReady(i, 0)
			}
			q.push(list[:backlog], 1)
			i := backlog
			b.ReportAllocs()
			for b.Loop() {
				one := list[i&0xffff : i&0xffff+1]
				one[0].Since = events.Instant(1_800_000_000_000 + i)
				q.push(one, 1)
				q.push(one, 1)
				for _, a := range q.round() {
					q.take(a, 1, nil)
				}
				i++
			}
		})
	}
}

// A later step of an old task goes before the first steps of younger tasks.
func BenchmarkQueueOlder(b *testing.B) {
	q := queue{limit: 4096}
	list := make([]events.Ready, 6000)
	for i := range list {
		list[i] = benchReady(i, 0)
	}
	q.push(list, 1)
	older := benchReady(50, 0)
	older.Path = "later"
	one := []events.Ready{older}
	b.ReportAllocs()
	for b.Loop() {
		q.push(one, 1)
		q.push(one, 1)
		a := q.round()[0]
		head := q.take(a, 1, nil)
		q.push(head, 1)
		a.plain.ready.cut(a.plain.ready.len() - 1)
		q.push(list[5999:], 1)
	}
}

// The cost of a batch with a backlog for five agents whose windows are full.
func BenchmarkAdmitFull(b *testing.B) {
	d := &dispatch{core: &core{cfg: Config{}.withDefaults(), batch: &batch{}, delays: &delays{}}, running: map[string]int{}, offers: map[string]Offer{}}
	d.queue.limit = d.cfg.Queue
	for _, agent := range []string{"account", "delivery", "drone", "package", "transport"} {
		d.offers[agent], d.running[agent] = Offer{Window: 64, Do: true}, 64
		for i := range 5000 {
			r := benchReady(i, 0)
			r.Agent = agent
			d.queue.push([]events.Ready{r}, 1)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = d.admit()
	}
}

// All owners on a node send to the same partition of an instance. Other nodes use its other partitions.
func TestOwnersOfANodeShareAPartition(t *testing.T) {
	t.Parallel()
	r := &routing{}
	r.set(map[string]Offer{"stock": {Targets: []Target{{Instance: "a", Partitions: []int32{0, 3, 6}, Capacity: 64, Do: true, Undo: true}}}})
	used := map[int32]bool{}
	for node := range uint32(30) {
		first := r.partition(events.Call{Agent: "stock", Operation: events.Do}, attempt{}, place{0, 8, node})
		for home := range int32(8) {
			require.Equal(t, first, r.partition(events.Call{Agent: "stock", Operation: events.Do}, attempt{}, place{home, 8, node}))
		}
		used[first] = true
	}
	require.Equal(t, map[int32]bool{0: true, 3: true, 6: true}, used)
}

// Choosing among three instances, and then ending the attempt.
func BenchmarkRoute(b *testing.B) {
	var r routing
	r.set(map[string]Offer{"stock": {Targets: []Target{
		{Instance: "a", Partitions: []int32{0, 3, 6}, Capacity: 64, Do: true, Undo: true},
		{Instance: "b", Partitions: []int32{1, 4, 7}, Capacity: 64, Do: true, Undo: true},
		{Instance: "c", Partitions: []int32{2, 5}, Capacity: 64, Do: true, Undo: true},
	}}})
	keys := make([]attempt, 24)
	for i := range keys {
		keys[i] = attempt{fmt.Sprintf("task-%08d", i), "reserve", events.Do, 1}
		r.partition(events.Call{Agent: "stock", Operation: events.Do}, keys[i], place{home: 1, of: 8})
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		key := keys[i%len(keys)]
		r.ended(key)
		r.partition(events.Call{Agent: "stock", Operation: events.Do}, key, place{home: 1, of: 8})
		i++
	}
}
