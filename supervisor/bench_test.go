package supervisor_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

const start events.Instant = 1_800_000_000_000

// bench is a model broker with one partition. The test drives the candidates by hand.
type bench struct {
	t        *testing.T
	now      events.Instant
	log      []events.Record
	inputs   map[events.Input][]events.Record
	versions versions
	// level is that of the namespace.
	level   int
	entropy byte
	// folded is the fold of the first records of the log.
	folded  *events.State
	applied int
	// partition is the owned one of the given number of partitions.
	partition, partitions int32
}

// newBench skips the test with -short: an owner runs on one goroutine. The race detector observes owners in the shells of whole nodes
// (internal/node), and the shells alone in shell_*_test.go.
func newBench(t *testing.T, workflows ...string) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("an owner runs on one goroutine, so the race detector has nothing to find: step test runs it")
	}
	b := &bench{t: t, now: start, inputs: map[events.Input][]events.Record{}, partitions: 1}
	for _, w := range workflows {
		b.define(w)
	}
	return b
}

type versions []supervisor.Version

// Level implements supervisor.Catalog.
func (c versions) Level() int { return events.FirstLevel }

// Settings implements supervisor.Catalog.
func (c versions) Settings() (events.Settings, int64) { return events.DefaultSettings(), 0 }

// leveled are the definitions of a namespace with a level.
type leveled struct {
	versions
	level int
}

// Level implements supervisor.Catalog.
func (c leveled) Level() int { return c.level }

func (c versions) Current(name string) (v supervisor.Version, ok bool) {
	for _, x := range c {
		if x.Workflow == name {
			v, ok = x, true
		}
	}
	return v, ok
}

func (c versions) Version(name string, n int) (supervisor.Version, bool) {
	for _, x := range c {
		if x.Workflow == name && x.Version == n {
			return x, true
		}
	}
	return supervisor.Version{}, false
}

func (c versions) ByHash(name, hash string) (supervisor.Version, bool) {
	for _, x := range c {
		if x.Workflow == name && x.Hash == hash {
			return x, true
		}
	}
	return supervisor.Version{}, false
}

// put appends an input of the partition and returns its offset.
func (b *bench) put(in events.Input, r events.Record) int64 {
	r.Offset, r.Partition = int64(len(b.inputs[in])), b.partition
	b.inputs[in] = append(b.inputs[in], r)
	return r.Offset
}

func (b *bench) submit(id, workflow, rest string) int64 {
	return b.put(events.Submissions, events.Record{Key: []byte(id), Value: fmt.Appendf(nil, `{"id":%q,"workflow":%q%s}`, id, workflow, rest)})
}

// report puts a report into the inputs. If it has no ticket, it gets that of the current task with its ID.
func (b *bench) report(p events.Report) int64 {
	if p.Ticket == "" {
		p.Ticket = b.ticket(p.Task)
	}
	r, err := events.EncodeReport(p, events.Subject{ID: "r", Source: "/agents", Time: b.now})
	require.NoError(b.t, err)
	return b.put(events.Reports, r)
}

// ticket returns the incarnation of a task, or a ticket that fits no task if the ID is unknown.
func (b *bench) ticket(task string) string {
	if b.folded == nil || b.applied > len(b.log) {
		b.folded, b.applied = events.NewState(b.partition, nil), 0
		b.folded.SetLevel(2)
	}
	for ; b.applied < len(b.log); b.applied++ {
		f, err := events.DecodeFact(&b.log[b.applied])
		require.NoError(b.t, err)
		_, err = b.folded.Apply(f, int64(b.applied))
		require.NoError(b.t, err)
	}
	if t, err := b.folded.Task(task); err == nil && t != nil {
		return t.Incarnation
	}
	return "none"
}

// done reports the success of an attempt of a do.
func (b *bench) done(task, step string, attempt int) int64 {
	return b.report(events.Report{Task: task, Run: 1, Step: step, Operation: events.Do, Attempt: attempt, Result: events.ResultCompleted, Output: json.RawMessage(`{"v":1}`)})
}

func (b *bench) failed(task, step string, attempt int, class events.Class, effect events.Effect) int64 {
	return b.report(events.Report{Task: task, Run: 1, Step: step, Operation: events.Do, Attempt: attempt, Result: events.ResultFailed, Effect: effect, Error: &events.Error{Class: class, Message: "it failed"}})
}

func (b *bench) undone(task, step string, attempt int) int64 {
	return b.report(events.Report{Task: task, Run: 1, Step: step, Operation: events.Undo, Attempt: attempt, Result: events.ResultCompleted})
}

func (b *bench) request(kind events.Verb, id, task string) int64 {
	r, err := events.EncodeRequest(events.Request{ID: id, Kind: kind, Task: task}, events.Subject{ID: id, Source: "/op", Time: b.now})
	require.NoError(b.t, err)
	return b.put(events.Reports, r)
}

// land appends records to the log, as the broker does, and returns their offsets.
func (b *bench) land(records ...events.Record) (offsets []int64) {
	for _, r := range records {
		r.Offset, r.Partition = int64(len(b.log)), b.partition
		b.log = append(b.log, r)
		offsets = append(offsets, r.Offset)
	}
	return offsets
}

// read folds the log from nothing, as every reader does.
func (b *bench) read() (s *events.State, accepted []*events.Fact, void int) {
	s = events.NewState(b.partition, nil)
	s.SetLevel(2)
	for i := range b.log {
		f, err := events.DecodeFact(&b.log[i])
		require.NoError(b.t, err)
		fate, err := s.Apply(f, b.log[i].Offset)
		require.NoError(b.t, err)
		if fate == events.FateAccepted {
			accepted = append(accepted, f)
		} else {
			void++
		}
	}
	return s, accepted, void
}

// names lists the accepted facts about tasks and inputs, in order.
func (b *bench) names() (list []string) {
	_, accepted, _ := b.read()
	for _, f := range accepted {
		switch f.Body.(type) {
		case *events.PartitionClaimed, *events.SettingsAdopted, *events.DefinitionAdopted, *events.StateHash, *events.InputsPassed:
		default:
			list = append(list, string(f.Body.Name()))
		}
	}
	return list
}

func count[T events.Body](b *bench) (n int) {
	_, accepted, _ := b.read()
	for _, f := range accepted {
		if _, ok := f.Body.(T); ok {
			n++
		}
	}
	return n
}

func last[T events.Body](b *bench) T {
	_, accepted, _ := b.read()
	for i := len(accepted) - 1; i >= 0; i-- {
		if x, ok := accepted[i].Body.(T); ok {
			return x
		}
	}
	var none T
	require.Fail(b.t, "no such fact", "%T in %v", none, b.names())
	return none
}

func (b *bench) task(id string) *events.Task {
	s, _, _ := b.read()
	t, err := s.Task(id)
	require.NoError(b.t, err)
	require.NotNil(b.t, t, "task %q", id)
	return t
}

// candidate is an owner with its store and its unanswered requests.
type candidate struct {
	b     *bench
	o     *supervisor.Owner
	store *sim.Store
	cfg   supervisor.Config
	sched supervisor.Scheduler

	todo []supervisor.Action
	// hold names what is held back: types of actions, such as "Append", or the reads "LogRecords" and "Input".
	hold map[string]bool
	// sent are the effects that were carried out. refuse says which ones the broker refuses, and silent which ones get no
	// answer and do not land.
	sent           []supervisor.Send
	refuse, silent func(supervisor.Send) bool
	unanswered     []supervisor.Send
	// refuseAs is the error of what is refused.
	refuseAs error
	// tooLarge says that the broker refuses all appends because of their size.
	tooLarge bool
	tail     int64
	read     map[events.Input]int64
	gen      uint64
	// stopped is the error of Stop.
	stopped error
	appends int
	asked   int
	// page is how many facts are read at once, all if it is zero; pages counts how often.
	page  int64
	pages int
	// through wraps the store that the owner reads, if it is set.
	through func(*sim.Store) supervisor.Store
	// committed is called after each commit, if it is set.
	committed func(supervisor.Commit)
}

func (b *bench) candidate(name string, change ...func(*candidate)) *candidate {
	s := events.DefaultSettings()
	s.HashEvery = 5
	c := &candidate{b: b, store: sim.NewStore(), sched: scheduler.New(), hold: map[string]bool{}, cfg: supervisor.Config{
		Partition: b.partition, Partitions: b.partitions, Node: name, Settings: s, RetryPause: time.Millisecond,
		Entropy: func() (x [16]byte) {
			b.entropy++
			x[9] = b.entropy
			return x
		},
	}}
	for _, f := range change {
		f(c)
	}
	c.restart()
	return c
}

// restart starts a new process on the existing store.
func (c *candidate) restart() {
	var store supervisor.Store = c.store
	if c.through != nil {
		store = c.through(c.store)
	}
	o, err := supervisor.NewOwner(c.cfg, c.sched, store)
	require.NoError(c.b.t, err)
	c.o, c.todo, c.read, c.gen = o, nil, nil, 0
}

// own assigns the partition and runs until the owner owns it.
func (c *candidate) own() *candidate {
	c.o.Assign(c.b.now)
	c.run()
	for range 10 {
		if c.o.Status().Owning {
			return c
		}
		c.pass(10 * time.Millisecond)
	}
	require.Fail(c.b.t, "the candidate never becomes the owner", "%+v", c.o.Status())
	return c
}

// drain takes all actions, and carries out commits immediately.
func (c *candidate) drain() {
	for range 10_000 {
		c.o.Decide()
		actions := c.o.TakeActions()
		if len(actions) == 0 {
			return
		}
		for _, a := range actions {
			switch a := a.(type) {
			case supervisor.Commit:
				require.NoError(c.b.t, c.store.Apply(a.Delta, a.Last))
				if c.committed != nil {
					c.committed(a)
				}
			case supervisor.Stop:
				c.stopped = a.Err
			case supervisor.Release:
				c.read = nil
			default:
				c.todo = append(c.todo, a)
			}
		}
	}
	require.Fail(c.b.t, "the owner decides without end")
}

func nameOf(a supervisor.Action) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", a), "supervisor.")
}

// run carries out all actions that are not held back, until none is left.
func (c *candidate) run() {
	for range 100_000 {
		c.drain()
		if !c.next() && !c.deliver() {
			return
		}
	}
	require.Fail(c.b.t, "the owner never becomes idle", "%v", c.b.names())
}

func (c *candidate) next() bool {
	for i, a := range c.todo {
		if !c.hold[nameOf(a)] {
			c.todo = append(append([]supervisor.Action(nil), c.todo[:i]...), c.todo[i+1:]...)
			c.do(a)
			return true
		}
	}
	return false
}

func (c *candidate) do(a supervisor.Action) {
	b := c.b
	switch a := a.(type) {
	case supervisor.Load:
		c.gen, c.tail, c.read = a.Generation, a.From, nil
		c.o.LogEnd(b.now, a.Generation, 0, int64(len(b.log)), nil)
	case supervisor.Claim:
		at := b.land(a.Record)
		b.now++ // so that attempts start later than the claim of their epoch
		c.o.Claimed(b.now, a.Generation, at[0], nil)
	case supervisor.Append:
		c.appends++
		if c.tooLarge {
			c.o.Appended(b.now, a.Generation, a.Batch, nil, fmt.Errorf("append: %w", events.ErrTooLarge))
			return
		}
		at := b.land(a.Records...)
		c.o.Appended(b.now, a.Generation, a.Batch, at, nil)
	case supervisor.ReadInputs:
		if c.read == nil {
			c.read = map[events.Input]int64{}
		}
		for in, from := range a.From {
			c.read[in] = from
		}
	case supervisor.ReadFacts:
		to := a.To
		if c.page > 0 {
			to = min(to, a.From+c.page)
		}
		c.pages++
		c.o.Replayed(b.now, a.Generation, a.Destination, append([]events.Record(nil), b.log[a.From:to]...), to)
	case supervisor.FetchInput:
		in, _, offset, _ := a.Cause.Input()
		c.o.Fetched(b.now, a.Generation, a.Cause, b.inputs[in][offset], nil)
	case supervisor.Send:
		if c.refuse != nil && c.refuse(a) {
			c.o.Sent(b.now, a.Generation, a.ID, cmp.Or(c.refuseAs, errors.New("refused")))
			return
		}
		if c.silent != nil && c.silent(a) {
			c.unanswered = append(c.unanswered, a)
			return
		}
		c.sent = append(c.sent, a)
		c.o.Sent(b.now, a.Generation, a.ID, nil)
	case supervisor.AskEnds:
		c.asked++
		c.o.Ends(b.now, a.Generation, a.Question, map[events.Input]int64{events.Reports: int64(len(b.inputs[events.Reports])), events.Submissions: int64(len(b.inputs[events.Submissions]))}, nil)
	case supervisor.AskEnd:
		c.o.LogEnd(b.now, a.Generation, a.Question, int64(len(b.log)), nil)
	case supervisor.AskCatalog:
		c.o.Definitions(b.now, a.Generation, a.Question, leveled{append(versions(nil), b.versions...), b.level}, nil)
	}
}

// deliver delivers the readable records, unless they are held back.
func (c *candidate) deliver() bool {
	if c.gen != c.o.Status().Generation || c.stopped != nil {
		return false
	}
	if end := int64(len(c.b.log)); c.tail < end && !c.hold["LogRecords"] {
		records := append([]events.Record(nil), c.b.log[c.tail:end]...)
		c.tail = end
		c.o.LogRecords(c.b.now, c.gen, records, end)
		return true
	}
	if c.read == nil || c.hold["Input"] {
		return false
	}
	for _, in := range []events.Input{events.Reports, events.Submissions} {
		if end := int64(len(c.b.inputs[in])); c.read[in] < end && !c.hold[string(in)] {
			records := append([]events.Record(nil), c.b.inputs[in][c.read[in]:end]...)
			c.read[in] = end
			c.o.Input(c.b.now, c.gen, in, records, end)
			return true
		}
	}
	return false
}

// wake lets the process go on after a sleep. The effects that it has not sent go back to the owner.
func (c *candidate) wake() {
	var unsent []uint64
	c.todo = slices.DeleteFunc(c.todo, func(a supervisor.Action) bool {
		s, ok := a.(supervisor.Send)
		if ok {
			unsent = append(unsent, s.ID)
		}
		return ok
	})
	c.o.Woke(c.b.now, c.o.Status().Generation, unsent)
}

// pass advances the clock and runs.
func (c *candidate) pass(d time.Duration) {
	c.b.now = c.b.now.Add(d)
	c.o.Tick(c.b.now)
	c.run()
}

// held returns the held-back actions of a type.
func held[A supervisor.Action](c *candidate) (list []A) {
	c.drain()
	for _, a := range c.todo {
		if x, ok := a.(A); ok {
			list = append(list, x)
		}
	}
	return list
}

// work lists the work requests that were sent, as "task.step operation#attempt".
func (c *candidate) work() (list []string) {
	for _, s := range c.sent {
		if s.Kind != events.EffectWork {
			continue
		}
		w, _, err := events.DecodeWork(&s.Record)
		require.NoError(c.b.t, err)
		list = append(list, fmt.Sprintf("%s.%s %s#%d", w.Task, w.Step, w.Operation, w.Attempt))
	}
	return list
}

func (c *candidate) sentTo(topic string) (list []events.Record) {
	for _, s := range c.sent {
		if s.Topic == topic {
			list = append(list, s.Record)
		}
	}
	return list
}
