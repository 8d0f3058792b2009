package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/kafka/work"
)

// moody hangs for parcels "hang-...", serves "fine-...", and refuses all others, until it is fixed. It records which parcels it
// served.
type moody struct {
	mu     sync.Mutex
	fixed  bool
	served map[string]bool
}

func (m *moody) do(ctx context.Context, in parcel) (parcel, error) {
	m.mu.Lock()
	fixed := m.fixed
	if fixed || strings.HasPrefix(in.ID, "fine") {
		m.served[in.ID] = true
	}
	m.mu.Unlock()
	switch {
	case fixed || strings.HasPrefix(in.ID, "fine"):
		return in, nil
	case strings.HasPrefix(in.ID, "hang"):
		<-ctx.Done()
		return in, ctx.Err()
	}
	return in, agent.Permanent(agent.NoEffect(errBoom))
}

func (m *moody) fix() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fixed = true
}

// An instance dies at an arbitrary moment. The next one gets every request that is not committed, and now every call succeeds.
func TestAnAttemptWithoutEffectNeverRunsAgain(t *testing.T) {
	t.Parallel()
	for _, died := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 150 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			m := &moody{served: map[string]bool{}}
			h := agenttest.Start(t, handle(m.do, agent.Concurrency(8)))
			works := map[string]events.Work{}
			for i := range 60 {
				id := fmt.Sprintf("%s-%d", []string{"fine", "refuse", "refuse"}[i%3], i)
				if i == 1 || i == 30 {
					id = fmt.Sprintf("hang-%d", i)
				}
				w := h.Work("package", events.Do, parcel{ID: id})
				w.CompleteBy = w.CompleteBy.Add(time.Minute)
				works[w.Task] = w
				h.Send(w)
				wait(time.Millisecond)
			}
			wait(died)
			next := h.Sources["package"].Successor()
			without := map[string]bool{}
			for _, r := range h.Reports() {
				if r.Effect == events.EffectNone {
					var in parcel
					require.NoError(t, json.Unmarshal(works[r.Task].Input, &in))
					without[in.ID] = true
				}
			}
			require.NotEmpty(t, without)
			m.fix()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			runner, err := agent.NewRunner(handle(m.do), agent.Config{
				Instance: "test-2", Sink: agenttest.NewSink(), Sources: map[string]transport.Source{"package": next},
			})
			require.NoError(t, err)
			require.NoError(t, runner.Run(ctx))
			require.True(t, m.served["hang-1"], "it was delivered again")
			for id := range without {
				require.False(t, m.served[id], id)
			}
			require.EqualValues(t, 60, next.Committed()[0])
		})
	}
}

// deaf is a source whose commits fail, or never return.
type deaf struct {
	*agenttest.Source
	hang bool
}

func (d deaf) Commit(ctx context.Context, _ map[int32]transport.Position) (map[int32]transport.Position, error) {
	if d.hang {
		<-ctx.Done()
	}
	return nil, errors.New("not stored")
}

func TestAnEffectThatCannotBeRecordedIsUnknown(t *testing.T) {
	t.Parallel()
	for _, hang := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := &moody{served: map[string]bool{}}
			h := agenttest.Start(t, handle(m.do), func(c *agent.Config) {
				c.Sources["package"] = deaf{c.Sources["package"].(*agenttest.Source), hang}
				c.CommitTimeout = time.Minute
			})
			began := time.Now()
			r := h.Do("package", parcel{ID: "refuse"})
			require.Equal(t, events.EffectInDoubt, r.Effect)
			require.Equal(t, events.ClassPermanent, r.Error.Class)
			require.Less(t, time.Since(began), agenttest.DefaultCompleteBy)
		})
	}
}

func TestADuplicateOfAnAttemptWithoutEffectIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &moody{served: map[string]bool{}}
		h := agenttest.Start(t, handle(m.do))
		w := h.Work("package", events.Do, parcel{ID: "refuse"})
		h.Send(w)
		r, ok := h.Await(w)
		require.True(t, ok)
		require.Equal(t, events.EffectNone, r.Effect)
		m.fix()
		h.Send(w)
		wait(time.Second)
		require.Empty(t, m.served)
		require.EqualValues(t, 2, h.Sources["package"].Committed()[0])
	})
}

// The same with a broker that dies together with the instance and is restarted on its data.
func TestAnAttemptWithoutEffectNeverRunsAgainOverKafka(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	broker := kafkatest.StartBroker(t, embedded.Config{Dir: dir})
	cluster := kafkatest.Connect(t, broker)
	topics := kafka.Topics{Namespace: "sagalog"}
	require.NoError(t, kafka.EnsureTopics(ctx, cluster, topics.Base(1)...))
	m := &moody{served: map[string]bool{}}
	run := func(c *kafka.Cluster) (context.CancelFunc, chan error) {
		a, err := agent.Attach(ctx, work.Over(c), handle(m.do), agent.Config{Instance: "i-1", Grace: 100 * time.Millisecond})
		require.NoError(t, err)
		stop, halt := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- a.Run(stop) }()
		return halt, ended
	}
	halt, ended := run(cluster)
	const n = 6
	send(ctx, t, cluster, "hang", "refuse-1", "fine-2", "refuse-3", "refuse-4", "fine-5")
	reports := reported(ctx, t, cluster, n-1)
	for _, task := range []string{"refuse-1", "refuse-3", "refuse-4"} {
		require.Equal(t, events.EffectNone, reports[task].Effect, task)
	}
	require.NoError(t, broker.Close())
	m.fix()

	cluster2 := kafkatest.Connect(t, kafkatest.StartBroker(t, embedded.Config{Dir: dir}))
	halt2, ended2 := run(cluster2)
	require.Equal(t, events.ResultCompleted, reported(ctx, t, cluster2, n)["hang"].Result)
	halt2()
	require.NoError(t, <-ended2)
	require.Equal(t, map[string]bool{"hang": true, "fine-2": true, "fine-5": true}, m.served)
	offsets, err := cluster2.CommittedOffsets(ctx, "sagalog.agents.package")
	require.NoError(t, err)
	require.EqualValues(t, n, offsets[topics.Work("package")][0])
	halt()
	<-ended
}

// send asks for work on parcels that are named as their tasks, in partition 0.
func send(ctx context.Context, t *testing.T, c *kafka.Cluster, ids ...string) {
	t.Helper()
	producer, err := kafka.NewProducer(c)
	require.NoError(t, err)
	defer producer.Close()
	for _, id := range ids {
		record, err := events.EncodeWork(events.Work{
			Task: id, Run: 1, Step: "pack", Agent: "package", Operation: events.Do, Attempt: 1, Ticket: "k",
			CompleteBy: events.At(time.Now().Add(50 * time.Second)), Input: json.RawMessage(`{"id":"` + id + `"}`),
		}, events.Subject{ID: id})
		require.NoError(t, err)
		record.Topic = kafka.Topics{Namespace: "sagalog"}.Work("package")
		_, err = producer.ProduceSync(ctx, record)
		require.NoError(t, err)
	}
}

// reported waits for the reports of n tasks. If a task has two, the last one counts.
func reported(ctx context.Context, t *testing.T, c *kafka.Cluster, n int) map[string]events.Report {
	t.Helper()
	g, err := kafka.NewGroup(c, kafka.GroupConfig{
		Group: fmt.Sprintf("test-%d", n), Topics: []string{kafka.Topics{Namespace: "sagalog"}.Reports()},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Leave(ctx)) }()
	out := map[string]events.Report{}
	for len(out) < n {
		records, err := g.Poll(ctx, 100)
		require.NoError(t, err)
		for _, r := range records {
			var report events.Report
			require.NoError(t, json.Unmarshal(r.Value, &report))
			report.Task = string(r.Key)
			out[report.Task] = report
		}
	}
	return out
}
