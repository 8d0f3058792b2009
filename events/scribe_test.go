package events_test

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

const (
	testPartition = int32(3)
	testSource    = "/sagalog/events/3"
	// testStart is 2026-11-21T14:00:00Z.
	testStart = events.Instant(1795269600000)
)

// tester has the methods that testing.TB and *rapid.T share.
type tester interface {
	require.TestingT
	Helper()
}

// entry is a record of a log and its expected fate.
type entry struct {
	record events.Record
	fact   *events.Fact
	fate   events.Fate
}

// scribe writes the log of one partition as an owner would, and folds what it writes.
type scribe struct {
	t     tester
	state *events.State
	log   []entry

	epoch events.Epoch
	next  uint64
	now   events.Instant
	step  events.Instant
}

func newScribe(t tester) *scribe {
	return &scribe{t: t, state: events.NewState(testPartition, nil), now: testStart, step: 1000}
}

// owned returns a scribe whose log begins with a claim.
func owned(t tester) *scribe {
	w := newScribe(t)
	w.claim("a0", "")
	return w
}

// option changes a fact before it is written.
type option func(*events.Fact)

func cause(c events.Cause) option { return func(f *events.Fact) { f.Cause = c } }

func fromInput(in events.Input, offset int64) option {
	return func(f *events.Fact) {
		f.Cause, f.CauseHash = events.CauseInput(in, testPartition, offset), "00112233445566ff"
	}
}

func watermark(n uint64) option {
	return func(f *events.Fact) { f.Watermark = events.Position{Epoch: f.Epoch, Sequence: n} }
}

func (w *scribe) fact(task string, b events.Body, options ...option) *events.Fact {
	w.now += w.step
	f := &events.Fact{Epoch: w.epoch, Sequence: w.next, Time: w.now, Task: task, Body: b}
	for _, o := range options {
		o(f)
	}
	return f
}

// write appends the next fact of the current epoch, which must be accepted.
func (w *scribe) write(task string, b events.Body, options ...option) *events.Fact {
	w.t.Helper()
	f := w.fact(task, b, options...)
	w.put(f, events.FateAccepted)
	w.next++
	return f
}

// claim appends a valid claim and continues in its epoch.
func (w *scribe) claim(id, prev string) {
	w.t.Helper()
	w.put(w.claiming(id, prev), events.FateAccepted)
	w.epoch, w.next = events.Epoch{N: w.epoch.N + 1, ID: id}, 0
}

func (w *scribe) claiming(id, prev string) *events.Fact {
	w.now += w.step
	return &events.Fact{Time: w.now, Body: &events.PartitionClaimed{ID: id, Prev: prev, Owner: "node-" + id, Reader: events.FormatVersion}}
}

// put appends any record and folds it.
func (w *scribe) put(f *events.Fact, want events.Fate) {
	w.t.Helper()
	r, err := events.EncodeFact(f, testPartition, testSource)
	require.NoError(w.t, err)
	r.Topic, r.Offset = "sagalog.events", w.state.Next
	got, err := w.state.Apply(f, r.Offset)
	require.NoError(w.t, err)
	require.Equal(w.t, want, got, "fate of %s at %d", f.Body.Name(), r.Offset)
	w.log = append(w.log, entry{record: r, fact: f, fate: got})
}

// refused expects the fold to refuse the fact as impossible.
func (w *scribe) refused(task string, b events.Body, options ...option) {
	w.t.Helper()
	_, err := w.state.Apply(w.fact(task, b, options...), w.state.Next)
	require.ErrorIs(w.t, err, events.ErrImpossible)
}

func (w *scribe) task(id string) *events.Task {
	w.t.Helper()
	t, err := w.state.Task(id)
	require.NoError(w.t, err)
	return t
}

func (w *scribe) hash() events.Hash {
	w.t.Helper()
	h, err := w.state.Hash()
	require.NoError(w.t, err)
	return h
}

// submit accepts a task; start begins an attempt of an undoable step of it.
func (w *scribe) submit(task string, options ...option) {
	w.t.Helper()
	w.write(task, &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Input: raw(`{"n":1}`), Content: "c-" + task}, options...)
}

func (w *scribe) start(task, step string, attempt int) {
	w.t.Helper()
	w.write(task, &events.StepStarted{Step: step, Agent: step, Attempt: attempt, CompleteBy: w.now.Add(30e9), Undoable: true, Input: raw(`{"i":1}`)})
}

func (w *scribe) complete(task, step string, attempt int) {
	w.t.Helper()
	w.write(task, &events.StepCompleted{Step: step, Attempt: attempt, Output: raw(`{"o":1}`)})
}

func (w *scribe) fail(task, step string, attempt int, v events.Verdict) {
	w.t.Helper()
	b := failure(step, attempt, v)
	b.QuietAt = w.now.Add(32e9)
	w.write(task, b)
}

func failure(step string, attempt int, v events.Verdict) *events.StepFailed {
	return &events.StepFailed{
		Step: step, Attempt: attempt, Effect: events.EffectInDoubt, Verdict: v,
		Error: events.Error{Class: events.ClassRetryable, Code: "http_503", Message: "the service answered 503"},
	}
}

func undo(reason string) events.Verdict {
	return events.Verdict{Action: events.ActionUndo, Reason: reason}
}

func park(reason string) events.Verdict {
	return events.Verdict{Action: events.ActionPark, Reason: reason}
}

func retryAt(at events.Instant) events.Verdict {
	return events.Verdict{Action: events.ActionRetry, At: at, Reason: "attempt 1 of 5"}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// store holds the rows of all deltas, as a projector does. So it provides a Loader and a Snapshot.
type store struct {
	tasks map[string]events.TaskRow
	// rows holds the other rows of the tasks, by task and then by kind and ID.
	rows  map[string]map[string]events.PartRow
	parts map[string]events.PartRow
	last  *events.Delta
}

func newStore() *store {
	return &store{tasks: map[string]events.TaskRow{}, rows: map[string]map[string]events.PartRow{}, parts: map[string]events.PartRow{}}
}

func (s *store) load(id string) (events.StoredTask, error) {
	row, ok := s.tasks[id]
	if !ok {
		return events.StoredTask{}, nil
	}
	return events.StoredTask{Encoding: row.Encoding, Keys: events.AppendKeys(nil, &row.Keys), Rows: slices.Collect(maps.Values(s.rows[id]))}, nil
}

// commit writes a delta and checks that it replaces exactly the rows that are present.
func (s *store) commit(t tester, d *events.Delta) {
	t.Helper()
	for _, row := range d.Tasks {
		old, ok := s.tasks[row.ID]
		require.Equal(t, ok, row.Was != nil, "row of %q replaces %v", row.ID, row.Was)
		if ok {
			require.Equal(t, asJSON(t, old.Keys), asJSON(t, *row.Was), "the keys that the row of %q replaces", row.ID)
		}
		delete(s.tasks, row.ID)
		if row.Encoding != nil {
			s.tasks[row.ID] = row
		}
		s.commitRows(t, &row)
	}
	for _, row := range d.Parts {
		delete(s.parts, string(row.Kind)+row.ID)
		if row.Encoding != nil {
			s.parts[string(row.Kind)+row.ID] = row
		}
	}
	s.last = d
}

// commitRows writes the other rows of a task and checks that the task has as many as it says, and no row that is larger than a record may be.
func (s *store) commitRows(t tester, row *events.TaskRow) {
	t.Helper()
	of := s.rows[row.ID]
	if of == nil {
		of = map[string]events.PartRow{}
	}
	for _, r := range row.Rows {
		key := string(r.Kind) + "\x00" + r.ID
		if r.Encoding == nil {
			require.Contains(t, of, key, "a row is removed that was not there")
			delete(of, key)
		} else {
			of[key] = r
		}
	}
	require.Len(t, of, row.Others)
	bytes := len(row.Encoding)
	for _, r := range of {
		bytes += len(r.Encoding)
	}
	require.Equal(t, bytes, row.Bytes)
	if s.rows[row.ID] = of; len(of) == 0 {
		delete(s.rows, row.ID)
	}
}

func (s *store) snapshot() events.Snapshot {
	snap := events.Snapshot{Next: s.last.Next, Sum: s.last.Sum, Runs: s.last.Runs}
	for _, row := range s.parts {
		snap.Parts = append(snap.Parts, row)
	}
	return snap
}

func asJSON(t tester, v any) string {
	t.Helper()
	b, err := events.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
