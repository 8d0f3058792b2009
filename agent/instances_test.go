package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/kafka/work"
)

// Several instances of an agent on one broker, which is the embedded one here and Apache Kafka in real_test.go.
var crewBehaviours = map[string]func(*testing.T, *crew){
	"another instance does the work of a dead one, under the same key": aDeadInstanceIsReplaced,
	"instances come and go under load and nothing is lost":             instancesComeAndGo,
	"of two instances with one name the older ends and says why":       twoInstancesWithOneName,
}

func TestManyInstances(t *testing.T) {
	t.Parallel()
	for name, behave := range crewBehaviours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.StartBroker(t, embedded.Config{Network: new(embedded.VirtualNetwork)})
			behave(t, newCrew(t, b.ClusterConfig()))
		})
	}
}

// crew is a namespace with instances of the agent "package".
type crew struct {
	t        *testing.T
	ctx      context.Context
	config   kafka.ClusterConfig
	cluster  *kafka.Cluster
	topics   kafka.Topics
	producer *kafka.Producer
	reports  chan events.Report
}

const crewPartitions = 4

func newCrew(t *testing.T, config kafka.ClusterConfig) *crew {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	c := &crew{
		t: t, ctx: ctx, config: config, topics: kafka.Topics{Namespace: fmt.Sprintf("t%08x", rand.Uint32())},
		reports: make(chan events.Report, 10_000),
	}
	c.cluster = c.connect(config)
	require.NoError(t, kafka.EnsureTopics(ctx, c.cluster, c.topics.Base(crewPartitions)...))
	var err error
	c.producer, err = kafka.NewProducer(c.cluster)
	require.NoError(t, err)
	t.Cleanup(c.producer.Close)
	c.read()
	return c
}

func (c *crew) connect(config kafka.ClusterConfig) *kafka.Cluster {
	c.t.Helper()
	cluster, err := kafka.Connect(config)
	require.NoError(c.t, err)
	c.t.Cleanup(cluster.Close)
	return cluster
}

// read forwards all reports.
func (c *crew) read() {
	r, err := kafka.NewReader(c.cluster, kafka.ReaderConfig{})
	require.NoError(c.t, err)
	for p := range int32(crewPartitions) {
		r.Add(c.topics.Reports(), p, 0, -1)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			fetches, err := r.Poll(c.ctx)
			if err != nil {
				return
			}
			for _, f := range fetches {
				for _, record := range f.Records {
					var report events.Report
					if json.Unmarshal(record.Value, &report) == nil {
						report.Task = string(record.Key)
						c.reports <- report
					}
				}
			}
		}
	}()
	c.t.Cleanup(func() { r.Close(); <-ended })
}

// send asks for work on a parcel that is named as its task.
func (c *crew) send(partition int32, ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		record, err := events.EncodeWork(events.Work{
			Task: id, Run: 1, Step: "pack", Agent: "package", Operation: events.Do, Attempt: 1, Home: partition, Ticket: "k",
			IdempotencyKey: "key of " + id, CompleteBy: events.At(time.Now().Add(90 * time.Second)), Input: json.RawMessage(`{"id":"` + id + `"}`),
		}, events.Subject{ID: id})
		require.NoError(c.t, err)
		record.Topic, record.Partition = c.topics.Work("package"), partition
		_, err = c.producer.ProduceSync(c.ctx, record)
		require.NoError(c.t, err)
	}
}

// report waits for the next report of a task by an instance.
func (c *crew) report(task, instance string) events.Report {
	c.t.Helper()
	for {
		select {
		case r := <-c.reports:
			if r.Task == task && r.Instance == instance {
				return r
			}
		case <-c.ctx.Done():
			require.FailNow(c.t, "no report", "of %s by %s", task, instance)
		}
	}
}

// settled waits until everything is committed.
func (c *crew) settled() {
	c.t.Helper()
	work := c.topics.Work("package")
	ends, err := c.cluster.EndOffsets(c.ctx, kafka.Partitions{work: {0, 1, 2, 3}})
	require.NoError(c.t, err)
	require.Eventually(c.t, func() bool {
		offsets, err := c.cluster.CommittedOffsets(c.ctx, c.group())
		require.NoError(c.t, err)
		for p, end := range ends[work] {
			if offsets[work][p] != end && end > 0 {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond)
}

func (c *crew) group() string { return c.topics.Namespace + ".agents.package" }

// cable is the network of one instance.
type cable struct {
	dial kafka.Dialer
	mu   sync.Mutex
	cut  bool
	open map[net.Conn]struct{}
}

func (w *cable) Dial(ctx context.Context, network, host string) (net.Conn, error) {
	conn, err := w.dial(ctx, network, host)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	w.open[conn] = struct{}{}
	return conn, nil
}

func (w *cable) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for conn := range w.open {
		_ = conn.Close()
		delete(w.open, conn)
	}
}

// instance is an agent that looks like a separate process to the broker.
type instance struct {
	cable *cable
	halt  context.CancelFunc
	ended chan error
}

func (c *crew) start(name string, do func(context.Context, parcel) (parcel, error), options ...agent.Option) *instance {
	c.t.Helper()
	dial := c.config.Dialer
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	i := &instance{cable: &cable{dial: dial, open: map[net.Conn]struct{}{}}, ended: make(chan error, 1)}
	config := c.config
	config.Dialer = i.cable.Dial
	a, err := agent.Attach(c.ctx, work.Over(c.connect(config)), handle(do, options...), agent.Config{Namespace: c.topics.Namespace, Instance: name})
	require.NoError(c.t, err)
	ctx, halt := context.WithCancel(c.ctx)
	i.halt = halt
	go func() { i.ended <- a.Run(ctx) }()
	c.t.Cleanup(func() { _ = i.stop() })
	return i
}

// stop ends an instance cleanly.
func (i *instance) stop() error {
	i.halt()
	err := <-i.ended
	i.ended <- err
	return err
}

// members waits until the group consists of exactly these instances.
func (c *crew) members(names ...string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		got, err := c.cluster.StaticMembers(c.ctx, c.group())
		require.NoError(c.t, err)
		return strings.Join(got, " ") == strings.Join(names, " ")
	}, time.Minute, 10*time.Millisecond)
}

type call struct{ instance, id, key string }

func aDeadInstanceIsReplaced(t *testing.T, c *crew) {
	calls, release := make(chan call, 100), make(chan struct{})
	run := func(name string, fn func(context.Context, parcel) (parcel, error)) *instance {
		return c.start(name, func(ctx context.Context, in parcel) (parcel, error) {
			a, _ := agent.FromContext(ctx)
			calls <- call{name, in.ID, a.IdempotencyKey}
			return fn(ctx, in)
		}, agent.Concurrency(1))
	}
	first := run("a", func(_ context.Context, in parcel) (parcel, error) { <-release; return in, nil })
	c.send(0, "one", "two", "three")
	require.Equal(t, call{"a", "one", "key of one"}, <-calls)
	first.cable.set(true)
	run("b", func(context.Context, parcel) (parcel, error) {
		return parcel{}, agent.Permanent(agent.NoEffect(errBoom))
	})
	c.members("a", "b")
	require.NoError(t, c.cluster.RemoveMember(c.ctx, c.group(), "a"))
	c.members("b")
	for _, id := range []string{"one", "two", "three"} {
		require.Equal(t, call{"b", id, "key of " + id}, <-calls)
		require.Equal(t, events.EffectInDoubt, c.report(id, "b").Effect, "a may have it, and may be done with it or not")
	}
	c.send(0, "four")
	require.Equal(t, "four", (<-calls).id)
	require.Equal(t, events.EffectNone, c.report("four", "b").Effect, "a cannot have read this one")
	c.settled()

	wait(3100 * time.Millisecond) // earlier confirmations have expired by then
	first.cable.set(false)        // as if it had only been paused
	close(release)
	require.Equal(t, events.ResultCompleted, c.report("one", "a").Result, "it reports the attempt that it ran")
	c.members("a", "b")
	for p := range int32(crewPartitions) {
		c.send(p, fmt.Sprintf("more-%d", p))
	}
	for range crewPartitions {
		require.Contains(t, (<-calls).id, "more", "a starts no request that it had read earlier")
	}
}

func twoInstancesWithOneName(t *testing.T, c *crew) {
	older := c.start("same", echo)
	c.send(0, "one")
	c.report("one", "same")
	c.start("same", echo)
	var fenced *agent.FencedError
	err := <-older.ended
	older.ended <- err
	require.ErrorAs(t, err, &fenced)
	require.ErrorContains(t, err, `another process uses the instance name "same": give each its own (--node`)
	c.members("same")
	c.send(0, "two")
	c.report("two", "same")
}

// burden is the work that several instances share, and a record of what they did.
type burden struct {
	t       *testing.T
	mu      sync.Mutex
	running map[call]bool
	runs    map[string]int
}

// do handles a parcel in an instance. Every fifth parcel is refused.
func (b *burden) do(name string) func(context.Context, parcel) (parcel, error) {
	return func(ctx context.Context, in parcel) (parcel, error) {
		at := call{instance: name, id: in.ID}
		b.mu.Lock()
		twice := b.running[at]
		b.running[at] = true
		b.runs[in.ID]++
		b.mu.Unlock()
		if twice {
			b.t.Errorf("%s ran twice at once in %s", in.ID, name)
		}
		wait(rand.N(60 * time.Millisecond))
		b.mu.Lock()
		delete(b.running, at)
		b.mu.Unlock()
		if strings.HasSuffix(in.ID, "-0") {
			return in, agent.Permanent(agent.NoEffect(errBoom))
		}
		return in, nil
	}
}

func instancesComeAndGo(t *testing.T, c *crew) {
	tasks := 1000
	if testing.Short() {
		tasks = 400
	}
	b := &burden{t: t, running: map[call]bool{}, runs: map[string]int{}}
	run := func(name string) *instance { return c.start(name, b.do(name), agent.Concurrency(16)) }
	one := run("a")
	c.send(0, "first-1")
	c.report("first-1", "a") // the group is stable, which takes 3 s with Apache Kafka
	changes := map[int]func(){
		tasks / 8:     func() { run("b") },
		2 * tasks / 8: func() { run("c") },
		4 * tasks / 8: func() { require.NoError(t, one.stop()) },
		5 * tasks / 8: func() { run("a") },
	}
	var changing sync.WaitGroup
	for n := range tasks {
		if change := changes[n]; change != nil {
			changing.Wait() // the previous one; the load continues meanwhile
			changing.Go(change)
		}
		if n > 6*tasks/8 && n%30 == 0 { // a false suspicion: the member is alive and rejoins
			require.NoError(t, c.cluster.RemoveMember(c.ctx, c.group(), []string{"a", "b", "c"}[rand.N(3)]))
		}
		c.send(int32(n%crewPartitions), fmt.Sprintf("task-%d-%d", n, n%5))
		wait(3 * time.Millisecond)
	}
	changing.Wait()
	reports, unknown, without := map[string]bool{}, 0, map[string]bool{}
	for len(reports) < tasks {
		select {
		case r := <-c.reports:
			reports[r.Task] = true
			if r.Effect == events.EffectNone {
				without[r.Task] = true
			} else if r.Result == events.ResultFailed {
				unknown++
			}
		case <-c.ctx.Done():
			require.FailNow(t, "reports are missing", "%d of %d", len(reports), tasks)
		}
	}
	c.settled()
	twice := 0
	for id, n := range b.runs {
		if n > 1 {
			twice++
			require.False(t, without[id], "%s was reported without effect, but ran %d times", id, n)
		}
	}
	t.Logf("%d tasks, %d run more than once; of the refused ones, %d certainly had no effect, and %d may have had one", tasks, twice, len(without), unknown)
	require.Greater(t, len(without), tasks/50, "most requests are not moved")
}
