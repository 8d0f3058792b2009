package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// countingStore counts the reads of an owner, and the rows that they return.
type countingStore struct {
	*sim.Store
	reads, rows int
}

func (s *countingStore) counted(rows int) { s.reads, s.rows = s.reads+1, s.rows+rows }

func (s *countingStore) Load(id string) (events.StoredTask, error) {
	s.counted(1)
	return s.Store.Load(id)
}

func (s *countingStore) Ready(line events.Line, limit int) ([]events.Ready, error) {
	list, err := s.Store.Ready(line, limit)
	s.counted(len(list))
	return list, err
}

func (s *countingStore) Queues() ([]string, error) {
	list, err := s.Store.Queues()
	s.counted(len(list))
	return list, err
}

func (s *countingStore) Due(at events.Instant, limit int) ([]string, error) {
	list, err := s.Store.Due(at, limit)
	s.counted(len(list))
	return list, err
}

func (s *countingStore) Waking(at events.Instant, limit int) ([]string, error) {
	list, err := s.Store.Waking(at, limit)
	s.counted(len(list))
	return list, err
}

func (s *countingStore) Unplanned(limit int) ([]string, error) {
	list, err := s.Store.Unplanned(limit)
	s.counted(len(list))
	return list, err
}

func (s *countingStore) Live(yield func(id string) error) error {
	s.counted(0)
	return s.Store.Live(func(id string) error {
		s.rows++
		return yield(id)
	})
}

func (s *countingStore) Ended(before events.Instant, limit int) ([]string, error) {
	list, err := s.Store.Ended(before, limit)
	s.counted(len(list))
	return list, err
}

func (s *countingStore) Forgettable(before events.Instant, limit int) ([]string, error) {
	list, err := s.Store.Forgettable(before, limit)
	s.counted(len(list))
	return list, err
}

const patient = `
workflow: patient
defaults: {complete_within: 1h}
steps:
  only: {agent: alpha}
`

// lateStep starts a step among healthy and finished tasks, and lets time pass in ticks until its timeout is recorded. It returns how
// late that is, and what the owner read meanwhile.
func lateStep(t *testing.T, others int, tick time.Duration) (late time.Duration, reads, rows int) {
	t.Helper()
	b := newBench(t, oneStep, patient)
	var store *countingStore
	a := b.candidate("A", func(c *candidate) {
		c.through = func(s *sim.Store) supervisor.Store {
			store = &countingStore{Store: s}
			return store
		}
	}).own()
	a.o.SetOffers(b.now, offers(1_000_000))
	const batch = 100
	for i := 0; i < others; i += batch {
		for k := range batch {
			b.submit(fmt.Sprint("healthy-", i+k), "patient", "")
			b.submit(fmt.Sprint("finished-", i+k), "patient", "")
		}
		a.run()
		for k := range batch {
			b.done(fmt.Sprint("finished-", i+k), "only", 1)
		}
		a.run()
	}
	b.submit("late", "one", "")
	a.run()
	by := b.task("late").Step("only").CompleteBy
	require.NotZero(t, by)
	store.reads, store.rows = 0, 0
	end := len(b.log)
	for len(b.log) == end {
		a.pass(tick)
		require.Less(t, b.now.Sub(by), time.Minute)
	}
	reads, rows = store.reads, store.rows
	require.Equal(t, 1, count[*events.Timeout](b))
	return b.now.Sub(by), reads, rows
}

func TestALateStepIsFoundWithinOneTick(t *testing.T) {
	t.Parallel()
	for _, tick := range []time.Duration{7 * time.Millisecond, 50 * time.Millisecond, 330 * time.Millisecond, 3 * time.Second} {
		late, _, _ := lateStep(t, 0, tick)
		require.GreaterOrEqual(t, late, time.Duration(0), tick)
		require.LessOrEqual(t, late, tick)
	}
}

func TestFindingALateStepCostsTheSameAmongManyTasks(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	_, reads, rows := lateStep(t, 100, 50*time.Millisecond)
	late, manyReads, manyRows := lateStep(t, 3_000, 50*time.Millisecond)
	require.LessOrEqual(t, late, 50*time.Millisecond)
	require.Equal(t, reads, manyReads)
	require.Equal(t, rows, manyRows)
}
