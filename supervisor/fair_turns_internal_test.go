package supervisor

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// fairStore holds the rows of queues. Changes take effect when they are flushed.
type fairStore struct {
	Store
	rows    map[events.Line]map[events.Ready]bool
	changed map[events.Ready]bool
}

func lineOf(r events.Ready) events.Line {
	return events.Line{Queue: r.Call().Queue(), Operation: r.Operation, FairBy: r.FairBy}
}

func (s *fairStore) flush() {
	for r, waits := range s.changed {
		line := lineOf(r)
		if s.rows[line] == nil {
			s.rows[line] = map[events.Ready]bool{}
		}
		if s.rows[line][r] = true; !waits {
			delete(s.rows[line], r)
		}
		if len(s.rows[line]) == 0 {
			delete(s.rows, line)
		}
	}
	clear(s.changed)
}

func (s *fairStore) Ready(line events.Line, limit int) ([]events.Ready, error) {
	list := slices.Collect(maps.Keys(s.rows[line]))
	slices.SortFunc(list, func(a, b events.Ready) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	return list[:min(limit, len(list))], nil
}

func (s *fairStore) FairKeys(line events.Line, limit int) (list []string, err error) {
	for x := range s.rows {
		if x.Queue == line.Queue && x.Operation == line.Operation && x.FairBy > line.FairBy {
			list = append(list, x.FairBy)
		}
	}
	slices.Sort(list)
	return list[:min(limit, len(list))], nil
}

func (s *fairStore) Queues() (names []string, err error) {
	for x := range s.rows {
		names = append(names, x.Queue)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// fairWorld drives a queue as an owner does.
type fairWorld struct {
	t     *testing.T
	q     queue
	store *fairStore
	// waits says which attempts have not started, and passed how often each other key was served while a key waited.
	waits  map[events.Ready]bool
	passed map[string]map[string]int
	// busy says that there is always something to flush.
	busy bool
}

func newFairWorld(t *testing.T, limit int) *fairWorld {
	if testing.Short() {
		t.Skip("an owner runs on one goroutine, so the race detector has nothing to find: step test runs it")
	}
	return &fairWorld{
		t: t, q: queue{limit: limit}, store: &fairStore{rows: map[events.Line]map[events.Ready]bool{}, changed: map[events.Ready]bool{}},
		waits: map[events.Ready]bool{}, passed: map[string]map[string]int{},
	}
}

func (w *fairWorld) add(r events.Ready) {
	w.waits[r], w.store.changed[r] = true, true
	w.q.push([]events.Ready{r}, 1)
}

// start starts the next attempt, and says whether there was one.
func (w *fairWorld) start() (r events.Ready, ok bool) {
	lanes := w.q.round()
	for _, a := range lanes {
		require.NoError(w.t, w.q.refill(w.store, a, len(w.store.changed) == 0 && !w.busy))
	}
	for {
		a, until := next(lanes)
		if a == nil {
			return r, false
		}
		r = w.q.take(a, 1, until)[0]
		if !w.waits[r] {
			continue
		}
		delete(w.waits, r)
		w.store.changed[r] = false
		a.ring.served(r.FairBy)
		return r, true
	}
}

// pass checks that no key is served twice while another one waits with attempts of that priority which the store has.
func (w *fairWorld) pass(started events.Ready) {
	delete(w.passed, started.FairBy)
	waiting := map[string]bool{}
	for r := range w.waits {
		waiting[r.FairBy] = waiting[r.FairBy] || w.store.rows[lineOf(r)][r] && r.Priority >= started.Priority
	}
	for key, is := range waiting {
		if key == started.FairBy || !is {
			continue
		}
		if w.passed[key] == nil {
			w.passed[key] = map[string]int{}
		}
		w.passed[key][started.FairBy]++
		require.LessOrEqual(w.t, w.passed[key][started.FairBy], 2, "%q waits, and %q is served again", key, started.FairBy)
	}
}

// The queue holds a few attempts of each key in memory, and two operations of the agent share its room.
func TestKeysTakeTurns(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 7))
		w := newFairWorld(t, 1+random.IntN(12))
		keys := 1 + random.IntN(8)
		n := 0
		for range 300 {
			switch x := random.IntN(10); {
			case x < 5:
				n++
				r := events.Ready{Task: fmt.Sprint("t", n), Path: "s", Operation: events.Do, Agent: "a", Since: events.Instant(1 + n/3)}
				if random.IntN(2) == 0 {
					r.Function = "f"
				}
				if k := random.IntN(keys + 1); k > 0 {
					r.FairBy = fmt.Sprint("k", min(k, random.IntN(keys)+1))
				}
				w.add(r)
			case x < 9:
				w.store.flush()
				if r, ok := w.start(); ok {
					w.pass(r)
				}
			case seed%2 == 0 && x == 9: // another owner
				w.store.flush()
				w.q, w.passed = queue{limit: w.q.limit}, map[string]map[string]int{}
				require.NoError(t, w.q.open(w.store))
			}
		}
		for range n {
			w.store.flush()
			if r, ok := w.start(); ok {
				w.pass(r)
			}
		}
		require.Empty(t, w.waits, "seed %d", seed)
		w.store.flush()
		_, more := w.start()
		require.False(t, more)
		for _, a := range w.q.lanes {
			require.Empty(t, a.keyed)
			require.Empty(t, a.ring.waiting)
			require.Empty(t, a.heads)
		}
	}
}

// Priority counts before turns, and among the attempts of a key the older task goes first.
func TestPriorityCountsBeforeTurns(t *testing.T) {
	t.Parallel()
	w := newFairWorld(t, 4)
	for i := range 20 {
		w.add(events.Ready{Task: fmt.Sprintf("a%02d", i), Path: "s", Operation: events.Do, Agent: "a", Since: events.Instant(i), FairBy: "a"})
	}
	for i, priority := range []int{0, 3, 1, 0} {
		w.add(events.Ready{Task: fmt.Sprint("b", i), Path: "s", Operation: events.Do, Agent: "a", Since: 100, FairBy: "b", Priority: priority})
	}
	w.add(events.Ready{Task: "plain", Path: "s", Operation: events.Do, Agent: "a", Since: 200})
	var order []string
	for range 8 {
		w.store.flush()
		r, ok := w.start()
		require.True(t, ok)
		order = append(order, r.Task)
	}
	require.Equal(t, []string{"b1", "b2", "plain", "a00", "b0", "a01", "b3", "a02"}, order)
}

// manyKeys adds an attempt of each of n keys, the last keys by their bytes first.
func (w *fairWorld) manyKeys(n int) {
	for i := range n {
		w.add(keyed(i, n-i))
	}
}

func keyed(task, key int) events.Ready {
	return events.Ready{Task: fmt.Sprint("t", task), Path: "s", Operation: events.Do, Agent: "a", Since: events.Instant(1 + task), FairBy: fmt.Sprintf("k%05d", key)}
}

// startAll starts all attempts that wait.
func (w *fairWorld) startAll() {
	for range len(w.waits) {
		_, ok := w.start()
		require.True(w.t, ok, "%d wait", len(w.waits))
		w.store.flush()
	}
}

// More keys than take turns wait in the store until others leave.
func TestKeysBeyondTheBoundWait(t *testing.T) {
	t.Parallel()
	w := newFairWorld(t, 8)
	w.manyKeys(maxKeys + 100)
	a := w.q.lanes[0]
	require.Len(t, a.keyed, maxKeys)
	_, more := a.count()
	require.True(t, more)
	w.store.flush()
	w.startAll()
}

// A new owner finds them too, in the store alone.
func TestANewOwnerFindsKeysBeyondTheBound(t *testing.T) {
	t.Parallel()
	for _, n := range []int{maxKeys, maxKeys + 1, 2*maxKeys + 100} {
		w := newFairWorld(t, 8)
		w.manyKeys(n)
		w.store.flush()
		w.q = queue{limit: w.q.limit}
		require.NoError(t, w.q.open(w.store))
		w.startAll()
	}
}

// An attempt that was left to the store goes before a later one of its key, for which there was room.
func TestAKeyDoesNotForgetWhatItLeftToTheStore(t *testing.T) {
	t.Parallel()
	w := newFairWorld(t, 8)
	w.manyKeys(maxKeys + 1)
	w.store.flush()
	_, ok := w.start()
	require.True(t, ok)
	w.add(keyed(maxKeys+1, 1))
	w.store.flush()
	var order []string
	for range len(w.waits) {
		r, ok := w.start()
		require.True(t, ok, "%d wait: %v", len(w.waits), w.waits)
		w.store.flush()
		if r.FairBy == "k00001" {
			order = append(order, r.Task)
		}
	}
	require.Equal(t, []string{fmt.Sprint("t", maxKeys), fmt.Sprint("t", maxKeys+1)}, order)
}

// An owner that always has something to flush does not know that nothing of a key waits any more. New keys get their turns all the same, and
// memory holds more than the least of one that waits alone.
func TestKeysThatWaitNoMoreLeaveABusyOwner(t *testing.T) {
	t.Parallel()
	w := newFairWorld(t, 800)
	w.manyKeys(maxKeys)
	w.store.flush()
	w.q, w.busy = queue{limit: w.q.limit}, true
	require.NoError(t, w.q.open(w.store))
	w.startAll()
	for i := range 300 {
		w.add(keyed(maxKeys+i, maxKeys+1+i%3))
	}
	w.store.flush()
	w.startAll()
	require.Len(t, w.q.lanes[slices.IndexFunc(w.q.lanes, func(a *lane) bool { return a.call.Operation == events.Do })].keyed, maxKeys)
	for i := range 300 {
		w.add(keyed(2*maxKeys+i, 2*maxKeys))
	}
	w.store.flush()
	_, ok := w.start()
	require.True(t, ok)
	n, _ := w.q.lanes[len(w.q.lanes)-1].count()
	require.Greater(t, n, 2*leastShare)
	w.startAll()
}

// The queue of an agent with backlogs of this many keys: add one, take one.
func BenchmarkQueueKeys(b *testing.B) {
	for _, keys := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			q := queue{limit: 4096}
			list := make([]events.Ready, 1<<16)
			for i := range list {
				list[i] = benchReady(i, 0)
				list[i].FairBy = fmt.Sprint("tenant-", i%keys)
			}
			q.push(list[:6000], 1)
			i := 6000
			b.ReportAllocs()
			for b.Loop() {
				one := list[i&0xffff : i&0xffff+1]
				one[0].Since = events.Instant(1_800_000_000_000 + i)
				q.push(one, 1)
				q.push(one, 1)
				for _, a := range q.round() {
					for _, r := range q.take(a, 1, nil) {
						a.ring.served(r.FairBy)
					}
				}
				i++
			}
		})
	}
}
