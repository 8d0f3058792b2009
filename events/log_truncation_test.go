package events_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// carries writes the next fact of the carry under way, if its turn has come, and says whether it did.
func (d *driver) carries() bool {
	c := d.state.Partition.Carry
	if c == nil || !d.state.Partition.HalfCarried() && rapid.IntRange(0, 3).Draw(d.t, "carries") > 0 {
		return false
	}
	for _, task := range driverTasks { // in their order
		if task <= c.Task && !d.state.Partition.HalfCarried() {
			continue
		}
		of, x, err := events.NextCarried(d.state, task)
		require.NoError(d.t, err)
		if x != nil {
			d.add(of, x)
			return true
		}
	}
	h, err := d.state.Hash()
	require.NoError(d.t, err)
	d.add("", &events.CarryEnded{Records: c.Records, Tasks: c.Tasks, Hash: h})
	return true
}

func (d *driver) add(task string, b events.Body) {
	d.fold(&events.Fact{Epoch: d.epoch, Sequence: d.next, Time: d.now, Task: task, Body: b})
	d.next++
}

// loadedFrom folds the log from one of its records on, and compares the state with that of the whole log, from the end of the carry on. It
// returns false if the carry does not end.
func loadedFrom(t require.TestingT, log []entry, from int) bool {
	whole, load, ended := events.NewState(testPartition, nil), events.NewState(testPartition, nil), false
	for i, e := range log {
		f, err := events.DecodeFact(&e.record)
		require.NoError(t, err)
		_, err = whole.Apply(f, e.record.Offset)
		require.NoError(t, err)
		if i < from {
			continue
		}
		_, err = load.Apply(f, e.record.Offset)
		require.NoError(t, err, "%d", i)
		if load.Partition.Loading() {
			continue
		}
		ended = true
		want, err := whole.Hash()
		require.NoError(t, err)
		got, err := load.Hash()
		require.NoError(t, err)
		require.Equal(t, want, got, "%d", i)
		if i%16 == 0 {
			_, err := load.Flush(nil)
			require.NoError(t, err)
		}
	}
	return ended
}

// A reader that begins at a carry has the state of one that has read everything, from the end of the carry on.
func TestALogThatIsCutHasTheSameState(t *testing.T) {
	t.Parallel()
	complete := 0
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(t)
		for range rapid.IntRange(50, 250).Draw(t, "facts") {
			d.step()
		}
		for i, e := range d.log {
			if e.fact.Body.Name() == events.NameCarryBegun && loadedFrom(t, d.log, i) {
				complete++
			}
		}
	})
	require.Positive(t, complete)
}

// An entity that is longer than a record is carried in pieces, and a log that begins in the middle of a task cannot be read.
func TestALongTaskIsCarriedInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := &driver{t: rt, state: events.NewState(testPartition, nil), now: testStart, steps: driverSteps[:3]}
		d.claim()
		long := `"` + strings.Repeat("ü<", 300<<10+rapid.IntRange(0, 3).Draw(rt, "more")) + `"`
		d.add("a", &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Input: raw(long), Content: "c"})
		b, err := events.BeginCarry(d.state)
		require.NoError(t, err)
		d.add("", b)
		records := 0
		for d.state.Partition.Carry != nil {
			if d.carries() {
				records++
			}
		}
		require.Greater(t, records, 4)
		require.True(t, loadedFrom(t, d.log, 2))
		for i := range d.log {
			size := d.log[i].record.Size()
			require.True(t, i == 1 || size < 1<<20, "%d bytes", size)
		}
	})
}

func TestACarryThatIsNotTheStateIsRefused(t *testing.T) {
	t.Parallel()
	begin := func() *driver {
		d := &driver{state: events.NewState(testPartition, nil), now: testStart, steps: driverSteps[:3]}
		d.plain(t, &events.Fact{Body: &events.PartitionClaimed{ID: "c1", Owner: "n", Reader: 1}})
		d.epoch = events.Epoch{N: 1, ID: "c1"}
		for _, id := range []string{"a", "b"} {
			d.plain(t, &events.Fact{Task: id, Body: &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Content: "c", Input: raw(`1`)}})
		}
		return d
	}
	begun := func(d *driver) *events.CarryBegun {
		b, err := events.BeginCarry(d.state)
		require.NoError(t, err)
		return b
	}
	next := func(d *driver, task string) *events.EntityCarried {
		_, x, err := events.NextCarried(d.state, task)
		require.NoError(t, err)
		return x
	}
	t.Run("the state of the partition", func(t *testing.T) {
		d := begin()
		b := begun(d)
		b.State = raw(strings.Replace(string(b.State), `"owner":"n"`, `"owner":"m"`, 1))
		require.ErrorIs(t, d.plain(nil, &events.Fact{Body: b}), events.ErrImpossible)
	})
	t.Run("a task", func(t *testing.T) {
		d := begin()
		d.plain(t, &events.Fact{Body: begun(d)})
		x := next(d, "a")
		x.Encoding = raw(strings.Replace(string(x.Encoding), `"input":1`, `"input":2`, 1))
		require.ErrorIs(t, d.plain(nil, &events.Fact{Task: "a", Body: x}), events.ErrImpossible)
	})
	t.Run("a task is left out", func(t *testing.T) {
		d := begin()
		d.plain(t, &events.Fact{Body: begun(d)})
		d.plain(t, &events.Fact{Task: "b", Body: next(d, "b")})
		h, err := d.state.Hash()
		require.NoError(t, err)
		require.ErrorIs(t, d.plain(nil, &events.Fact{Body: &events.CarryEnded{Records: 1, Tasks: 1, Hash: h}}), events.ErrImpossible)
	})
	t.Run("the log begins with another fact", func(t *testing.T) {
		_, err := events.NewState(testPartition, nil).Apply(&events.Fact{Body: &events.StateHash{}}, 7)
		require.ErrorContains(t, err, "facts are lost")
	})
}

// plain folds a fact, and returns the error of the fold if t is nil.
func (d *driver) plain(t *testing.T, f *events.Fact) error {
	if f.Time = d.now; f.Body.Name() != events.NamePartitionClaimed {
		f.Epoch, f.Sequence = d.epoch, d.next
		d.next++
	}
	_, err := d.state.Apply(f, d.state.Next)
	if t != nil {
		require.NoError(t, err)
	}
	return err
}

func (w *scribe) hash1() { w.write("", &events.StateHash{Hash: w.hash()}) }

// carry: the state is written into the log once more. Meanwhile a task is accepted, and the state is hashed.
func (w *scribe) carry() {
	b, err := events.BeginCarry(w.state)
	require.NoError(w.t, err)
	w.write("", b)
	var ids []string
	for t := range w.state.Loaded {
		ids = append(ids, t.ID)
	}
	slices.Sort(ids)
	p := &w.state.Partition
	for p.HalfCarried() {
		w.carryNext("")
	}
	for i, id := range ids {
		if i == len(ids)/2 {
			w.hash1()
			w.submit("zz-later")
		}
		w.carryNext(id)
		for p.HalfCarried() {
			w.carryNext("")
		}
	}
	w.write("", &events.CarryEnded{Records: p.Carry.Records, Tasks: p.Carry.Tasks, Hash: w.hash()})
}

func (w *scribe) carryNext(id string) {
	of, x, err := events.NextCarried(w.state, id)
	require.NoError(w.t, err)
	w.write(of, x)
}
