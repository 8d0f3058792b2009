package events_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// The facts of each task of a random log, folded alone, lead to the task that the whole log leads to, after each of them.
func TestATaskFoldedAloneIsAsInItsPartition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(t)
		alone, older := map[string]*events.Past{}, map[string]map[string]bool{}
		for range rapid.IntRange(1, 80).Draw(t, "facts") {
			d.step()
			e := d.log[len(d.log)-1]
			if b, swept := e.fact.Body.(*events.TasksSwept); swept {
				for _, id := range b.Tasks { // the store drops its history
					delete(alone, id)
					older[id] = map[string]bool{}
					for _, h := range d.state.HeldFor(id) {
						older[id][h.Request.ID] = true
					}
				}
			}
			if b, held := e.fact.Body.(*events.RequestHeld); held {
				delete(older[e.fact.Task], b.Request.ID)
			}
			if e.fact.Task == "" {
				continue
			}
			f, err := events.DecodeFact(&e.record)
			require.NoError(t, err)
			p := alone[f.Task]
			if p == nil {
				p = events.NewPast(f.Task)
				alone[f.Task] = p
			}
			require.NoError(t, p.Apply(f), "%s", f.Body.Name())
			requireSameTask(t, d.state, p, f.Task, older[f.Task])
		}
	})
}

// older are the requests that Past does not know.
func requireSameTask(t require.TestingT, s *events.State, p *events.Past, id string, older map[string]bool) {
	want, err := s.Task(id)
	require.NoError(t, err)
	got := p.Task()
	if want == nil {
		require.Nil(t, got)
		return
	}
	known, shown := *want, *got
	known.RemindAt, shown.RemindAt = 0, 0 // see Past
	known.Held = slices.DeleteFunc(slices.Clone(known.Held), func(r events.Request) bool { return older[r.ID] })
	require.Equal(t, encoded(t, &known), encoded(t, &shown))
	require.Equal(t, want.Last, got.Last)
}

func encoded(t require.TestingT, task *events.Task) string {
	b, err := events.Marshal(task)
	require.NoError(t, err)
	return string(b)
}

// The same for a log with every kind of fact.
func TestEachFactOfATaskCanBeFoldedAlone(t *testing.T) {
	t.Parallel()
	s, alone := events.NewState(testPartition, nil), map[string]*events.Past{}
	for _, e := range story(t).log {
		fate, err := s.Apply(e.fact, s.Next)
		require.NoError(t, err)
		if b, swept := e.fact.Body.(*events.TasksSwept); swept {
			for _, id := range b.Tasks {
				delete(alone, id)
			}
		}
		id := e.fact.Task
		if fate != events.FateAccepted || id == "" {
			continue
		}
		if alone[id] == nil {
			alone[id] = events.NewPast(id)
		}
		require.NoError(t, alone[id].Apply(e.fact), "%s of %s", e.fact.Body.Name(), id)
		requireSameTask(t, s, alone[id], id, nil)
	}
}

// The correction of a clock names a time that only a fact of the partition has announced.
func TestATaskFoldedAloneTakesACorrectionOfTheTime(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.write("", &events.SettingsAdopted{Settings: events.DefaultSettings()})
	w.submit("t")
	w.start("t", "a", 1)
	w.now = w.now.Add(3600e9)
	w.fail("t", "a", 1, retryAt(w.now.Add(60e9)))
	back := w.now.Add(-3500e9)
	w.write("", &events.TimeCorrected{To: back})
	w.now = back
	w.write("t", &events.TimeCorrected{To: back})
	w.write("", &events.TimeCorrected{To: back, Settled: true})
	p := events.NewPast("t")
	for _, e := range w.log {
		if e.fact.Task == "t" {
			require.NoError(t, p.Apply(e.fact))
		}
	}
	requireSameTask(t, w.state, p, "t", nil)
}

func TestFactsWithoutTheBeginningOfATaskAreRefused(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	p := events.NewPast("t")
	require.ErrorIs(t, p.Apply(w.log[len(w.log)-1].fact), events.ErrImpossible)
	require.Nil(t, p.Task())
}
