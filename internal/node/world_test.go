package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// world is a broker over a virtual network, with everything that runs against it.
type world struct {
	t       *testing.T
	network *kafka.VirtualNetwork
	broker  *kafka.Broker
	// cluster is the test's own connection, which meets no faults.
	cluster  *kafka.Cluster
	producer *kafka.Producer
	topics   kafka.Topics
	parts    int32
	logs     *logBook
	watch    *observer
	serial   int
}

// order is a workflow of five steps with a fork, undos and a pivot.
const order = `
workflow: order
defaults:
  complete_by: 5s
  retry: {attempts: 3, backoff: 200ms, factor: 2, max: 1s, then: undo}
steps:
  reserve:
    agent: stock
    with: {id: "${ task.id }"}
    undo: {}
  charge:
    needs: [reserve]
    agent: bank
    with: {id: "${ task.id }"}
    undo: {}
  pack:
    needs: [charge]
    agent: stock
    with: {id: "${ task.id }"}
    undo: {}
  ship:
    needs: [pack]
    agent: carrier
    with: {id: "${ task.id }"}
    pivot: true
    retry: {attempts: 3, backoff: 200ms, factor: 2, max: 1s, then: park}
  notify:
    needs: [ship]
    agent: mail
    with: {id: "${ task.id }"}
    retry: {attempts: 2, backoff: 200ms, factor: 2, max: 1s, then: park}
output: "${ steps.ship.output }"
`

// setup builds a world with so many partitions in memory; observe begins when the first node made the topics.
func setup(t *testing.T, partitions int32) *world {
	t.Helper()
	return setupOn(t, partitions, "")
}

// setupOn keeps the logs in a directory.
func setupOn(t *testing.T, partitions int32, dir string) *world {
	t.Helper()
	w := &world{t: t, network: new(kafka.VirtualNetwork), topics: kafka.Topics{Namespace: "sagalog"}, parts: partitions, logs: &logBook{}}
	w.broker = kafkatest.StartBroker(t, kafka.BrokerConfig{Network: w.network, Dir: dir})
	w.cluster = kafkatest.Connect(t, w.broker)
	var err error
	w.producer, err = kafka.NewProducer(w.cluster)
	require.NoError(t, err)
	t.Cleanup(w.producer.Close)
	return w
}

// process is one running node with a connection of its own.
type process struct {
	*node.Node
	t       *testing.T
	dir     string
	net     *network
	cluster *kafka.Cluster
	cancel  context.CancelFunc
	ended   chan error
	gone    bool
}

// open opens a node on a directory; run it, or close it.
func (w *world) open(dir string, change ...func(*node.Config)) (*process, error) {
	w.t.Helper()
	w.serial++
	p := &process{t: w.t, dir: dir, net: newNetwork(w.network), ended: make(chan error, 1)}
	cc := w.broker.ClusterConfig()
	cc.Dialer = p.net.Dial
	cc.Logger = w.logs.logger()
	var err error
	p.cluster, err = kafka.Connect(cc)
	require.NoError(w.t, err)
	cfg := node.Config{
		Cluster: p.cluster, Name: fmt.Sprintf("node-%d", w.serial), Dir: dir, Partitions: w.parts, Logger: w.logs.logger(),
	}
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if p.Node, err = node.Open(ctx, cfg); err != nil {
		p.cluster.Close()
		p.net.cut()
		return nil, err
	}
	return p, nil
}

// node starts a node; the test's end stops it.
func (w *world) node(dir string, change ...func(*node.Config)) *process {
	w.t.Helper()
	p, err := w.open(dir, change...)
	require.NoError(w.t, err)
	p.run()
	if w.watch == nil {
		w.watch = observe(w)
	}
	w.t.Cleanup(func() { _ = p.stop() })
	return p
}

func (p *process) run() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() { p.ended <- p.Run(ctx) }()
}

// stop ends the node cleanly, once.
func (p *process) stop() error {
	if p.gone {
		return nil
	}
	p.gone = true
	p.cancel()
	err := <-p.ended
	p.cluster.Close()
	p.net.cut()
	return err
}

// kill cuts the node off the broker first, so that nothing it is about to say arrives.
func (p *process) kill() {
	p.net.cut()
	_ = p.stop()
}

// apply applies a definition through a node.
func (w *world) apply(p *process, source string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, faults, err := p.ApplyFile(ctx, "test.yaml", []byte(source), nil)
	require.NoError(w.t, err)
	require.Empty(w.t, faults)
}

// submission is a plain one of the workflow order.
func submission(id string, input any) events.Record {
	b, _ := json.Marshal(map[string]any{"id": id, "workflow": "order", "input": input})
	return events.Record{Key: []byte(id), Value: b}
}

// produce sends records to a topic and returns their offsets. A partition of -1 is the home of the key.
func (w *world) produce(topic string, partition int32, records ...events.Record) []int64 {
	w.t.Helper()
	for i := range records {
		records[i].Topic, records[i].Partition = topic, partition
		if partition < 0 {
			records[i].Partition = events.Home(string(records[i].Key), w.parts)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	at, err := w.producer.ProduceSync(ctx, records...)
	require.NoError(w.t, err)
	return at
}

// submit produces plain submissions to their home.
func (w *world) submit(ids ...string) {
	w.t.Helper()
	var list []events.Record
	for _, id := range ids {
		list = append(list, submission(id, map[string]any{"n": 1}))
	}
	w.produce(w.topics.Submissions(), -1, list...)
}

// request sends what an operator asks.
func (w *world) request(kind, task, id string) {
	w.t.Helper()
	r, err := events.EncodeRequest(events.Request{ID: id, Kind: kind, Task: task, Reason: "because"},
		events.Subject{ID: id, Source: "/test", Time: events.At(time.Now())})
	require.NoError(w.t, err)
	w.produce(w.topics.Reports(), -1, r)
}

// read returns all records of a partition of a topic.
func (w *world) read(topic string, partition int32) []events.Record {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	end, err := w.cluster.EndOffset(ctx, topic, partition)
	require.NoError(w.t, err)
	var list []events.Record
	if end > 0 {
		require.NoError(w.t, w.cluster.ReadRange(ctx, topic, partition, 0, end, func(r events.Record) error {
			list = append(list, r)
			return nil
		}))
	}
	return list
}

// ids returns n task IDs.
func ids(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%04d", prefix, i)
	}
	return list
}
