package events_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// INV2, the replay property: after every record of a random log, these folds have the same hash: the live one, the fold of the
// decoded records, one that evicts every task that it can, one that is closed and reopened, and one that flushes rarely.
func TestReplayProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(t)
		memory := replay{state: events.NewState(testPartition, nil)}
		evicting, closing := storedReplay(false), storedReplay(true)
		lazy := replay{state: events.NewState(testPartition, nil), lazy: true}
		done := 0
		check := func() {
			for ; done < len(d.log); done++ {
				e := d.log[done]
				want, err := d.state.Hash()
				require.NoError(t, err)
				for name, r := range map[string]*replay{"decoded": &memory, "evicting": &evicting, "closed and opened": &closing, "lazy": &lazy} {
					fate, got := r.fold(t, e.record)
					require.Equal(t, events.FateAccepted, fate)
					require.Equal(t, want, got, "%s, at offset %d: %s", name, e.record.Offset, e.fact.Body.Name())
				}
			}
		}
		check()
		for range rapid.IntRange(1, 60).Draw(t, "facts") {
			d.step()
			check()
			if rapid.IntRange(0, 4).Draw(t, "flush") == 0 {
				for _, s := range []*events.State{d.state, lazy.state} {
					_, err := s.Flush(nil)
					require.NoError(t, err)
				}
				require.Equal(t, d.state.Sum(), lazy.state.Sum(), "when Flush is called does not matter")
			}
		}
		require.Equal(t, d.state.Runs(), closing.state.Runs())
		require.Equal(t, d.state.Partition.Inputs, closing.state.Partition.Inputs)
	})
}

// arrival is the result of the simplest reader, which applies only the rule in FORMAT.md.
type arrival struct {
	n      uint64
	id     string
	next   uint64
	broken bool
}

func (a *arrival) accepts(f *events.Fact) bool {
	if c, ok := f.Body.(*events.PartitionClaimed); ok {
		if c.Prev != a.id || c.ID == "" || c.ID == a.id {
			return false
		}
		*a = arrival{n: a.n + 1, id: c.ID}
		return true
	}
	if a.n == 0 || f.Epoch != (events.Epoch{N: a.n, ID: a.id}) || a.broken || f.Sequence != a.next {
		a.broken = a.broken || (f.Epoch == events.Epoch{N: a.n, ID: a.id} && f.Sequence > a.next)
		return false
	}
	a.next++
	return true
}

// Duplicate records, late records, and records of owners that were never current change nothing: the facts and the states after
// them are the same as in the undisturbed log.
func TestDoubledAndStaleRecordsChangeNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(t)
		for range rapid.IntRange(1, 50).Draw(t, "facts") {
			d.step()
		}
		s, calm := events.NewState(testPartition, nil), events.NewState(testPartition, nil)
		for i, e := range d.log {
			for rapid.IntRange(0, 2).Draw(t, "disturbance") == 0 {
				late := *d.log[rapid.IntRange(0, len(d.log)-1).Draw(t, "late")].fact
				switch c, claim := late.Body.(*events.PartitionClaimed); {
				case claim && i == 0:
					continue // the first claim is not disturbed
				case claim:
					c := *c
					c.ID += rapid.SampledFrom([]string{"", "x"}).Draw(t, "another claim of that predecessor")
					if current := s.Partition.Epoch.ID; c.Prev == current {
						continue // the copy would not be late
					}
					late.Body = &c
				case late.Epoch.N > s.Partition.Epoch.N || (late.Epoch == s.Partition.Epoch && late.Sequence >= s.Partition.NextSequence):
					late.Epoch.ID = "stranger"
				}
				fate, err := s.Apply(&late, s.Next)
				require.NoError(t, err)
				require.Equal(t, events.FateVoid, fate)
			}
			fate, err := s.Apply(e.fact, s.Next)
			require.NoError(t, err)
			require.Equal(t, events.FateAccepted, fate)
			_, err = calm.Apply(e.fact, calm.Next)
			require.NoError(t, err)
		}
		got, err := s.Hash()
		require.NoError(t, err)
		want, err := calm.Hash()
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// Records of one epoch are dropped, repeated and reordered. The fold accepts exactly the records that the simple rule accepts,
// in the order of the sequence, each once. It never errors, since the accepted records are a prefix of the decided ones. With
// claims in between, the records after a loss were decided on another state. Only then may the fold find a fact impossible or
// the state hash different.
func TestDroppedAndReorderedRecords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(t)
		for range rapid.IntRange(1, 40).Draw(t, "facts") {
			d.step()
		}
		var facts []*events.Fact
		for _, e := range d.log {
			for range rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 0, 2}).Draw(t, "copies") {
				facts = append(facts, e.fact)
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "swaps") {
			i := rapid.IntRange(0, max(0, len(facts)-2)).Draw(t, "swap")
			if i+1 < len(facts) {
				facts[i], facts[i+1] = facts[i+1], facts[i]
			}
		}
		s, rule := events.NewState(testPartition, nil), arrival{}
		seen := map[events.Position]bool{}
		for _, f := range facts {
			want := rule.accepts(f)
			fate, err := s.Apply(f, s.Next)
			if err != nil {
				require.True(t, want, "only an accepted record can be impossible")
				require.Greater(t, s.Partition.Epoch.N, uint64(1), "%v", err)
				require.True(t, errors.Is(err, events.ErrImpossible) || errors.Is(err, events.ErrStateHash), "%v", err)
				return // the partition stops
			}
			require.Equal(t, want, fate == events.FateAccepted)
			if _, claim := f.Body.(*events.PartitionClaimed); want && !claim {
				require.False(t, seen[f.Position()], "applied twice")
				seen[f.Position()] = true
			}
		}
	})
}

// INV10, as far as the fold can ensure it: a live task that is neither parked nor about to be parked has a running attempt, a
// timer, or a step that can start or be undone.
func TestTimersFollowTheState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(t)
		for range rapid.IntRange(1, 80).Draw(t, "facts") {
			d.step()
			d.state.Loaded(func(task *events.Task) bool {
				timers := task.Timers()
				if task.State.Ended() {
					require.Empty(t, timers)
					return true
				}
				running := 0
				counts := map[string]int{}
				task.RunningBy(counts, 1)
				for _, n := range counts {
					running += n
				}
				due, asks := 0, 0
				for _, m := range timers {
					require.NotZero(t, m.Due, "%+v", m)
					if m.Kind == events.TimerCompleteBy || m.Kind == events.TimerChild {
						require.True(t, task.Running(m.Path, m.Operation, m.Attempt))
					}
					switch byChild := task.Step(m.Path).DoneByChild(m.Operation) != ""; {
					case m.Kind == events.TimerCompleteBy && !byChild:
						due++
					case m.Kind == events.TimerChild && byChild:
						asks++
					}
				}
				require.Equal(t, running-counts[""], due, "each running attempt of an agent has a complete-by timer")
				require.Equal(t, counts[""], asks, "each running attempt of a child has a timer that asks it")
				require.NotEmpty(t, task.State)
				require.Equal(t, task.State == events.TaskStateError, task.ParkedFrom != "")
				require.NotEqual(t, events.TaskStateError, task.ParkedFrom)
				return true
			})
		}
	})
}
