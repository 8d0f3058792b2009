package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/kafka/work"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

const order = `
workflow: order
defaults:
  complete_within: 2s
  retry: {attempts: 3, backoff: 50ms, factor: 2, max_backoff: 200ms, then: undo}
  undo: {retry: {attempts: 3, backoff: 50ms, factor: 2, max_backoff: 200ms}}
steps:
  reserve: {agent: stock, with: {id: "${ task.id }"}, undo: {}}
  gift: {needs: [reserve], agent: mail, if: "${ input.n == 2 }", with: {id: "${ task.id }"}}
  charge: {needs: [reserve], agent: bank, with: {id: "${ task.id }"}, undo: {}}
  rest: {needs: [reserve], sleep: {until: "${ input.n == 2 ? '20ms' : '10ms' }"}}
  pack: {needs: [charge, gift, rest], agent: stock, operation: pack, with: {id: "${ task.id }"}, undo: {}}
  ship:
    needs: [pack]
    agent: carrier
    with: {id: "${ task.id }"}
    pivot: true
    retry: {attempts: 2, backoff: 50ms, factor: 2, max_backoff: 200ms, then: park}
output: "${ steps.ship.output }"
`

// keyed has tasks of which one runs at a time.
const keyed = `
workflow: keyed
concurrency: {key: one, max: 1}
steps:
  charge: {agent: bank, with: {id: "${ task.id }"}}
`

// twice has tasks that run once more.
const twice = `
workflow: twice
steps:
  reserve: {agent: bank, with: {id: "${ task.id }"}, undo: {}}
  pack: {needs: [reserve], agent: stock, with: {id: "${ task.id }"}, undo: {}}
`

// shelved has a step of which one attempt runs at a time, in all tasks.
const shelved = `
workflow: shelved
steps:
  charge: {agent: bank, with: {id: "${ task.id }"}, limit: shelf}
`

// approval has two steps that wait for signals, of which the second may time out.
const approval = `
workflow: approval
steps:
  first: {wait: {signal: [yes, no]}, complete_within: 1m}
  second: {needs: [first], wait: {signal: [yes, no]}, complete_within: 300ms, on_timeout: continue, remind_after: 100ms}
  charge: {needs: [second], agent: bank, with: {id: "${ task.id }"}}
`

// rig is a node on an embedded broker, with agents whose behaviour depends only on the task's ID and on works.
type rig struct {
	t        *testing.T
	broker   *embedded.Broker
	cluster  *kafka.Cluster
	producer *kafka.Producer
	topics   kafka.Topics
	dir      string
	node     *node.Node
	stop     func()

	// works says that the carrier works for the tasks that are parked and retried.
	works atomic.Bool
	// keepLog makes the node carry its state each quarter of it.
	keepLog events.Duration

	mu    sync.Mutex
	calls []verify.Call
	// altered holds the sums of each partition's rows as they would be if one member of each task were different.
	altered []events.Hash
}

const rigPartitions = 2

func newRig(t *testing.T, keepLog events.Duration) *rig {
	t.Helper()
	r := &rig{t: t, keepLog: keepLog, topics: kafka.Topics{Namespace: "sagalog"}, dir: t.TempDir()}
	r.broker = kafkatest.StartBroker(t, embedded.Config{Network: new(embedded.VirtualNetwork)})
	r.cluster = kafkatest.Connect(t, r.broker)
	var err error
	r.producer, err = kafka.NewProducer(r.cluster)
	require.NoError(t, err)
	t.Cleanup(r.producer.Close)
	r.start("node-a")
	shelf, err := scheduler.EncodeLimit(&events.LimitDefinition{Limit: "shelf", Max: 1}, events.Subject{ID: "shelf", Source: "/test", Time: events.At(time.Now())})
	require.NoError(t, err)
	r.produce(r.topics.Definitions(), 0, shelf)
	for name, text := range map[string]string{"order.yaml": order, "approval.yaml": approval, "keyed.yaml": keyed, "twice.yaml": twice, "shelved.yaml": shelved, "sheets.yaml": sheets} {
		_, faults, err := r.node.ApplyFile(context.Background(), name, []byte(text), nil)
		require.NoError(t, err)
		require.Empty(t, faults)
	}
	r.hire()
	return r
}

// start runs a node in place of the previous one.
func (r *rig) start(name string) {
	r.t.Helper()
	if r.stop != nil {
		r.stop()
	}
	s := events.DefaultSettings()
	s.Grace, s.HeldFor, s.HashEvery = events.Duration(300*time.Millisecond), events.Duration(6*time.Second), 40
	s.RemindAfter = events.Duration(200 * time.Millisecond)
	s.KeepLog = r.keepLog // KeepInputs keeps the log from being cut
	cluster, err := kafka.Connect(r.broker.ClusterConfig())
	require.NoError(r.t, err)
	r.node, err = node.Open(context.Background(), node.Config{Cluster: cluster, Name: name, Dir: r.dir, Partitions: rigPartitions, Alone: true, KeepInputs: true, Settings: s})
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	n := r.node
	go func() { ended <- n.Run(ctx) }()
	r.stop = sync.OnceFunc(func() { cancel(); <-ended; cluster.Close() })
	r.t.Cleanup(r.stop)
}

type order1 struct {
	ID string `json:"id"`
}

// hire runs the agents.
func (r *rig) hire() {
	reg := agent.NewRegistry()
	undo := agent.WithUndo(func(ctx context.Context, _ agent.Undo[order1, order1]) error { return r.act(ctx) })
	do := func(ctx context.Context, in order1) (order1, error) { return in, r.act(ctx) }
	for _, name := range []string{"stock", "bank", "carrier", "mail"} {
		agent.Handle(reg, name, do, undo)
	}
	agent.HandleOperation(reg, "stock", "pack", do, undo)
	cluster, err := kafka.Connect(r.broker.ClusterConfig())
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := agent.Attach(ctx, work.Over(cluster), reg, agent.Config{})
	require.NoError(r.t, err)
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	r.t.Cleanup(func() { cancel(); <-ended; cluster.Close() })
}

var errRefused = errors.New("refused")

// act is a call to a service, which writes it to the ledger when it takes effect.
func (r *rig) act(ctx context.Context) error {
	a, _ := agent.FromContext(ctx)
	kind, _, _ := strings.Cut(a.Task, "-")
	outcome, err := "done", error(nil)
	hang := false
	refused, unknown := sheetFails(kind, a.Step)
	switch {
	case a.Operation == events.Undo:
		if kind == "late" && a.Attempt == 1 {
			outcome, err = "refused", errRefused
		}
	case refused:
		outcome, err = "refused", agent.NoEffect(agent.Permanent(errRefused))
	case unknown:
		outcome, err = "unknown", agent.Permanent(errRefused)
	case a.Step == "pack" && (kind == "refuse" || kind == "late" && a.Attempt > 1):
		outcome, err = "refused", agent.NoEffect(agent.Permanent(errRefused))
	case a.Step == "pack" && (kind == "hang" || kind == "late") && a.Attempt == 1:
		hang = true
	case a.Step == "charge" && kind == "retry" && a.Attempt == 1:
		outcome, err = "refused", agent.NoEffect(errRefused)
	case a.Step == "ship" && (kind == "park" || kind == "reopen" && !r.works.Load()):
		outcome, err = "unknown", agent.Permanent(errRefused)
	case a.Step == "pack" && kind == "cancel":
		hang = true
	}
	r.mu.Lock()
	if outcome == "done" && slices.ContainsFunc(r.calls, func(c verify.Call) bool { return c.Identifier == a.IdempotencyKey && c.Outcome == "done" }) {
		outcome = "repeated"
	}
	r.calls = append(r.calls, verify.Call{Identifier: a.IdempotencyKey, Task: a.Task, Step: a.Step, Operation: a.Operation, Outcome: outcome, Time: events.At(time.Now())})
	r.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// produce writes to a partition, or to the home of the key if the partition is -1.
func (r *rig) produce(topic string, partition int32, records ...events.Record) []int64 {
	r.t.Helper()
	for i := range records {
		records[i].Topic, records[i].Partition = topic, partition
		if partition < 0 {
			records[i].Partition = events.Home(string(records[i].Key), rigPartitions)
		}
	}
	at, err := r.producer.ProduceSync(context.Background(), records...)
	require.NoError(r.t, err)
	return at
}

func submission(id string, n int) events.Record {
	body := map[string]any{"id": id, "workflow": "order", "input": map[string]any{"n": n}, "priority": 5, "labels": map[string]string{"tier": "own"}}
	switch {
	case strings.HasPrefix(id, "sig-"):
		body["workflow"] = "approval"
	case strings.HasPrefix(id, "many-"), strings.HasPrefix(id, "most-"):
		body["workflow"] = "sheets"
	case strings.HasPrefix(id, "again-"):
		body["workflow"] = "twice"
	case strings.HasPrefix(id, "key-"):
		body["workflow"] = "keyed"
	case strings.HasPrefix(id, "limit-"):
		body["workflow"] = "shelved"
	case (strings.HasPrefix(id, "ok-") || strings.HasPrefix(id, "park-")) && n%2 == 0:
		body["not_before"] = "30ms"
	}
	b, _ := json.Marshal(body)
	return events.Record{Key: []byte(id), Value: b}
}

func (r *rig) request(kind events.Verb, task, id string) {
	r.ask(events.Request{ID: id, Kind: kind, Task: task, Reason: "because"})
}

func (r *rig) ask(q events.Request) {
	rec, err := events.EncodeRequest(q, events.Subject{ID: q.ID, Source: "/test", Time: events.At(time.Now())})
	require.NoError(r.t, err)
	r.produce(r.topics.Reports(), -1, rec)
}

// holdLimit sends requests about the limit of the workflow keyed.
func (r *rig) holdLimit(kind string, ids ...string) {
	for _, id := range ids {
		rec, err := events.EncodeLimitRequest(events.LimitRequest{ID: id, Limit: "concurrency/keyed/one"}, kind, events.Subject{ID: id, Source: "/test", Time: events.At(time.Now())})
		require.NoError(r.t, err)
		r.produce(r.topics.Reports(), -1, rec)
	}
}

// goOn resumes the paused limit and retries the parked tasks.
func (r *rig) goOn() {
	r.holdLimit(events.TypeLimitResume, "p3")
	r.works.Store(true)
	for i := 1; i <= 4; i++ {
		r.request(events.RequestRetry, fmt.Sprintf("reopen-%d", i), fmt.Sprintf("qr-%d", i))
	}
}

// signal sends a signal to the input that a producer writes.
func (r *rig) signal(task, id, name string) {
	q := events.Request{ID: id, Kind: events.RequestSignal, Task: task, Signal: name, Payload: json.RawMessage(`{"by":"` + id + `"}`)}
	rec, err := events.EncodeRequest(q, events.Subject{ID: id, Source: "/test", Time: events.At(time.Now())})
	require.NoError(r.t, err)
	r.produce(r.topics.Submissions(), -1, rec)
}

// recorded holds the contents of all topics, and the stores and ledgers.
type recorded struct {
	memory
	stored []verify.Stored
	calls  []verify.Call
	// apart says that each step has a ledger.
	apart bool
	acks  []verify.Acknowledged
	// altered is as in rig.
	altered []events.Hash
}

// record reads all topics, effects first.
func (r *rig) record() *recorded {
	w := &recorded{memory: memory{map[string][][]events.Record{}}}
	names := []string{r.topics.DeadSubmissions(), r.topics.DeadReports()}
	for _, a := range []string{"stock", "bank", "carrier", "mail"} {
		names = append(names, r.topics.Work(a))
	}
	names = append(names, r.topics.Definitions(), r.topics.Submissions(), r.topics.Reports(), r.topics.Events())
	for _, name := range names {
		n, err := r.cluster.Partitions(context.Background(), name)
		if errors.Is(err, kafka.ErrUnknownTopic) {
			continue
		}
		require.NoError(r.t, err)
		for p := range n {
			list := []events.Record{}
			require.NoError(r.t, r.cluster.ReadRange(context.Background(), name, p, 0, -1, func(rec events.Record) error {
				list = append(list, rec)
				return nil
			}))
			w.topics[name] = append(w.topics[name], list)
		}
	}
	r.mu.Lock()
	w.calls = slices.Clone(r.calls)
	r.mu.Unlock()
	return w
}

// has counts the facts with the given name whose task ID has the given prefix.
func (w *recorded) has(name events.Name, prefix string) (n int) {
	for _, part := range w.topics["sagalog.events"] {
		for i := range part {
			if part[i].Header(events.HeaderType) == events.TypePrefix+string(name) && strings.HasPrefix(string(part[i].Key), prefix) {
				n++
			}
		}
	}
	return n
}

func (w *recorded) ledgers(t testing.TB) *verify.Ledgers { return w.ledgersOf(t, 0) }

func (w *recorded) ledgersOf(t testing.TB, written events.Instant) *verify.Ledgers {
	l := verify.NewLedgers()
	texts := map[string]*strings.Builder{}
	for _, c := range w.calls {
		name := "calls"
		if w.apart {
			name = c.Step
		}
		if texts[name] == nil {
			texts[name] = new(strings.Builder)
		}
		require.NoError(t, json.NewEncoder(texts[name]).Encode(c))
	}
	for name, b := range texts {
		require.NoError(t, l.Read(name, strings.NewReader(b.String()), written))
	}
	return l
}

func (w *recorded) verify(t testing.TB, change ...func(*verify.Config)) *verify.Report {
	cfg := verify.Config{Log: &w.memory, Topics: topicsOf("sagalog"), Stored: w.stored, Acknowledged: w.acks, Ledgers: w.ledgers(t), Now: events.At(time.Now()), Show: 10_000}
	for _, c := range change {
		c(&cfg)
	}
	r, err := verify.Run(context.Background(), cfg)
	require.NoError(t, err)
	return r
}

// strays sends conflicts, submissions of other partitions, and garbage.
func (r *rig) strays() {
	for i := 1; i <= 3; i++ {
		r.produce(r.topics.Submissions(), -1, submission(fmt.Sprintf("ok-%d", i), 77)) // conflicts
		id := fmt.Sprintf("stray-%d", i)
		r.produce(r.topics.Submissions(), (events.Home(id, rigPartitions)+1)%rigPartitions, submission(id, i))
		r.produce(r.topics.Submissions(), int32(i)%rigPartitions, events.Record{Key: []byte("g"), Value: []byte("{garbage"), Headers: []events.Header{{Key: "h", Value: []byte{byte(i)}}}})
		r.produce(r.topics.Reports(), int32(i)%rigPartitions, events.Record{Key: []byte("g"), Value: []byte("{garbage")})
	}
}

// again runs tasks once more.
func (r *rig) again() {
	for i := 1; i <= 4; i++ { // half of them keep their first step
		q := events.Request{ID: fmt.Sprintf("qa-%d", i), Kind: events.RequestRerun, Task: fmt.Sprintf("again-%d", i)}
		if i > 2 {
			q.From = "pack"
		}
		r.ask(q)
	}
}

// play makes the engine do everything that it can do, with two take-overs, and returns the recording.
func play(t *testing.T, keepLog events.Duration) *recorded {
	r := newRig(t, keepLog)
	var acks []verify.Acknowledged
	submit := func(kind string, from, to int) {
		for i := from; i <= to; i++ {
			rec := submission(fmt.Sprintf("%s-%d", kind, i), i)
			at := r.produce(r.topics.Submissions(), -1, rec)
			acks = append(acks, verify.Acknowledged{ID: string(rec.Key), Partition: events.Home(string(rec.Key), rigPartitions), Offset: at[0]})
		}
	}
	kinds := []string{"ok", "refuse", "hang", "late", "retry", "park", "reopen", "cancel"}
	for _, k := range kinds {
		submit(k, 1, 4)
	}
	// Each task that will be cancelled has reached the step that hangs.
	r.until("the first half", func(w *recorded) bool {
		return w.has(events.NameStepCompleted, "") > 40 && w.has(events.NameStepStarted, "cancel-") >= 3*4
	})
	for i := 1; i <= 4; i++ {
		r.request(events.RequestCancel, fmt.Sprintf("cancel-%d", i), fmt.Sprintf("qc-%d", i))
	}
	r.start("node-b")
	for i := 1; i <= 4; i++ {
		r.request(events.RequestCancel, fmt.Sprintf("early-%d", i), fmt.Sprintf("qe-%d", i))
		r.request(events.RequestCancel, fmt.Sprintf("ghost-%d", i), fmt.Sprintf("qg-%d", i))
	}
	submit("early", 1, 4)     // at once, because a request is held for a few seconds only
	for i := 1; i <= 4; i++ { // the first two signals come before their task, and of the second half no second one comes
		id := fmt.Sprintf("sig-%d", i)
		r.signal(id, id+"-no", "no")
		if i <= 2 {
			r.signal(id, id+"-yes", "yes")
		}
	}
	submit("sig", 1, 4)
	r.holdLimit(events.TypeLimitPause, "p1", "p2") // the second one changes nothing
	submit("key", 1, 4)
	submit("limit", 1, 4)
	submit("again", 1, 4)
	submit("many", 1, 2)
	submit("most", 1, 2)
	submit("ok", 1, 3) // duplicates
	r.strays()
	r.until("parked tasks", func(w *recorded) bool { return w.has(events.NameTaskParked, "reopen-") == 4 })
	r.until("tasks that run once more", func(w *recorded) bool { return w.has(events.NameTaskProcessed, "again-") == 4 })
	r.again()
	r.goOn()
	r.start("node-c")
	submit("ok", 5, 10)
	r.untilAll(allEnds)
	// A deposed owner leaves a copy of a fact and a late claim.
	log := r.record().topics[r.topics.Events()][0]
	for _, i := range []int{slices.IndexFunc(log, isClaim), slices.IndexFunc(log, func(r events.Record) bool { return nameOf(r) == events.NameStepCompleted })} {
		c := log[i]
		r.produce(r.topics.Events(), 0, events.Record{Key: c.Key, Value: c.Value, Headers: c.Headers})
	}
	submit("ok", 11, 18) // their facts say that all earlier effects are acknowledged
	var last *verify.Report
	w := r.until("rest", func(w *recorded) bool {
		last = w.verify(t, func(c *verify.Config) { c.AtRest = true })
		return last.Verdict == verify.Proved
	})
	w.acks = acks
	r.stop()
	return r.settled(w)
}

// settled reads all topics again after the node has stopped, and its store.
func (r *rig) settled(before *recorded) *recorded {
	w := r.record()
	w.acks = before.acks
	w.stored = r.stores()
	w.altered = r.altered
	return w
}

func nameOf(r events.Record) events.Name {
	return events.Name(strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix))
}

func isClaim(r events.Record) bool { return nameOf(r) == events.NamePartitionClaimed }
