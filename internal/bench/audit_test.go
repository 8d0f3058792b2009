package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

// played is a log that the engine wrote, with the agents' counts of their calls.
type played struct {
	t      *testing.T
	s      *system
	names  names
	tasks  int
	called *calls
	acked  *table[uint8]
}

const playedTasks = 40

// judged is the judgement about two tasks of three items each, of which only the second item of the second task began.
func judged(started, completed, called int) Verdict {
	a, e := audit{names: newNames("x"), items: 3}, evidence{sent: 2, acked: new(table[uint8]), calls: new(calls)}
	for task := range 2 {
		*a.outcomes.at(task) = outcome{1, 1}
		*e.acked.at(task) = 1
	}
	item := events.ItemPath(steps[0], 1)
	at := place(1, item, 3)
	*a.starts.at(at), *a.completed.at(at) = uint32(started), uint32(completed)
	for range called {
		e.calls.add(at, stepOf(steps[0]))
	}
	return a.judge(e)
}

func TestCallsOfItemsAreComparedWithTheirAttempts(t *testing.T) {
	t.Parallel()
	good := judged(1, 1, 1)
	require.NoError(t, good.Err())
	require.EqualValues(t, 1, good.Calls)
	twice, none := judged(1, 1, 2), judged(1, 1, 0)
	require.ErrorContains(t, twice.Err(), "step reserve[1] of task order-x-1 was called 2 times for 1 attempts")
	require.ErrorContains(t, none.Err(), "step reserve[1] of task order-x-1 completed 1 times but was called 0 times")
}

// play runs tasks and opens their log.
func play(t *testing.T) *played {
	dir := t.TempDir()
	cfg := Config{Dir: dir, Duration: longEnough, Partitions: 2}
	r, err := Tasks(t.Context(), &TasksConfig{Config: cfg, Outstanding: playedTasks, Tasks: playedTasks})
	require.NoError(t, err)
	require.EqualValues(t, playedTasks, r.Checked)
	cfg.setDefaults()
	s, err := openBroker(t.Context(), &cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close()) })
	p := &played{t: t, s: s, tasks: playedTasks, called: new(calls), acked: new(table[uint8])}
	p.each(func(r events.Record) {
		if i := bytes.LastIndexByte(r.Key, '-'); i > 0 {
			p.names.prefix = r.Key[:i+1]
		}
	})
	a := p.audit()
	for task := range p.tasks {
		*p.acked.at(task) = 1
		*p.called.at(task) = a.starts.get(task)
	}
	return p
}

func (p *played) each(f func(events.Record)) {
	for n := range int32(2) {
		require.NoError(p.t, p.s.cluster.ReadRange(p.t.Context(), p.s.topics.Events(), n, 0, -1, func(r events.Record) error { f(r); return nil }))
	}
}

func (p *played) audit() *audit {
	a := &audit{names: p.names}
	require.NoError(p.t, a.read(p.t.Context(), p.s.cluster, p.s.topics.Events(), 2))
	return a
}

func (p *played) judge() Verdict {
	return p.audit().judge(evidence{sent: p.tasks, acked: p.acked, calls: p.called, ends: true})
}

// again appends a copy of the last fact of a kind. If accepted is set, the copy gets a sequence that makes it a fact.
func (p *played) again(kind events.Name, accepted bool) {
	var last events.Record
	rules, next := map[int32]*verify.Rule{0: {}, 1: {}}, map[int32]events.Position{}
	p.each(func(r events.Record) {
		void, err := rules[r.Partition].JudgeRecord(&r)
		require.NoError(p.t, err)
		if at, err := events.PositionOf(&r); void == "" && err == nil { // not a claim
			next[r.Partition] = events.Position{Epoch: at.Epoch, Sequence: at.Sequence + 1}
		}
		if r.Header(events.HeaderType) == events.TypePrefix+string(kind) {
			last = r
		}
	})
	require.NotEmpty(p.t, last.Key)
	if accepted {
		for i := range last.Headers {
			if last.Headers[i].Key == events.HeaderID {
				last.Headers[i].Value = fmt.Appendf(nil, "%d/%s", last.Partition, next[last.Partition])
			}
		}
	}
	producer, err := kafka.NewProducer(p.s.cluster)
	require.NoError(p.t, err)
	defer producer.Close()
	_, err = producer.ProduceSync(context.Background(), last)
	require.NoError(p.t, err)
}

func TestALogWithoutFaultsIsNotRefuted(t *testing.T) {
	t.Parallel()
	p := play(t)
	v := p.judge()
	require.NoError(t, v.Err())
	require.EqualValues(t, playedTasks, v.Checked)
	require.EqualValues(t, playedTasks*len(steps), v.Calls)
}

func TestALostTaskIsFound(t *testing.T) {
	t.Parallel()
	p := play(t)
	*p.acked.at(p.tasks) = 1
	p.tasks++
	v := p.judge()
	require.EqualValues(t, 1, v.Lost)
	require.Error(t, v.Err())
	require.Contains(t, v.Findings[0], string(p.names.append(nil, playedTasks)))
}

func TestADoubledEndIsFound(t *testing.T) {
	t.Parallel()
	p := play(t)
	p.again(events.NameTaskProcessed, true)
	v := p.judge()
	require.EqualValues(t, 1, v.Doubled)
	require.Error(t, v.Err())
}

func TestADoubledAcceptanceIsFound(t *testing.T) {
	t.Parallel()
	p := play(t)
	p.again(events.NameSubmitted, true)
	require.EqualValues(t, 1, func() int64 { v := p.judge(); return v.Doubled }())
}

func TestAVoidCopyIsNoHistory(t *testing.T) {
	t.Parallel()
	p := play(t)
	p.again(events.NameTaskProcessed, false)
	v := p.judge()
	require.NoError(t, v.Err())
	require.EqualValues(t, 1, p.audit().void)
}

func TestACallWithoutAnAttemptIsFound(t *testing.T) {
	t.Parallel()
	p := play(t)
	p.called.add(3, 2)
	v := p.judge()
	require.EqualValues(t, 1, v.Doubled)
	again := p.audit().judge(evidence{sent: p.tasks, acked: p.acked, calls: p.called, ends: true, again: true})
	require.NoError(t, again.Err())
	require.EqualValues(t, 1, again.Repeated)
}

// A process that got no CPU for seconds loses its partitions to itself, and the new epoch sends again what may not have arrived.
func TestATakeoverInTheLogExplainsACallMore(t *testing.T) {
	t.Parallel()
	p := play(t)
	p.called.add(3, 2)
	before := p.audit().takeovers // those of a run that got no CPU for seconds
	p.claim()
	a := p.audit()
	v := a.judge(evidence{sent: p.tasks, acked: p.acked, calls: p.called, ends: true})
	require.NoError(t, v.Err())
	require.EqualValues(t, 1, v.Repeated)
	require.EqualValues(t, before+1, a.takeovers)
}

// claim lets another owner take the partition of the last claim in the log.
func (p *played) claim() {
	var last events.Record
	p.each(func(r events.Record) {
		if r.Header(events.HeaderType) == events.TypePrefix+string(events.NamePartitionClaimed) {
			last = r
		}
	})
	var c events.PartitionClaimed
	require.NoError(p.t, json.Unmarshal(last.Value, &c))
	c.Prev, c.ID = c.ID, "00000000000000000000000000000001"
	var err error
	last.Value, err = json.Marshal(c)
	require.NoError(p.t, err)
	producer, err := kafka.NewProducer(p.s.cluster)
	require.NoError(p.t, err)
	defer producer.Close()
	_, err = producer.ProduceSync(context.Background(), last)
	require.NoError(p.t, err)
}

func TestACompletionWithoutACallIsFound(t *testing.T) {
	t.Parallel()
	p := play(t)
	*p.called.at(5) = 0
	v := p.judge()
	require.EqualValues(t, len(steps), v.Lost)
}

func TestATaskWithoutAnEndIsFound(t *testing.T) {
	t.Parallel()
	p := play(t)
	a := p.audit()
	a.outcomes.at(9).ended = 0
	v := a.judge(evidence{sent: p.tasks, acked: p.acked, calls: p.called, ends: true})
	require.EqualValues(t, 1, v.Unfinished)
	require.Error(t, v.Err())
}
