package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/projector/projectortest"
	"github.com/stretchr/testify/require"
)

// world is a broker over a virtual network, with everything that connects to it.
type world struct {
	t       *testing.T
	network *embedded.VirtualNetwork
	broker  brokers
	// cluster is the test's own connection, which meets no faults.
	cluster  *kafka.Cluster
	producer *kafka.Producer
	topics   kafka.Topics
	parts    int32
	logs     *logBook
	watch    *observer
	serial   int
	// latency is how long each frame of the network takes. If it is zero, a client that retries without a pause, as it
	// does while a leader moves, keeps virtual time from advancing, and so the answer never changes.
	latency time.Duration
	// keyFile is the key with which nodes and crews seal; nil if nothing is sealed.
	keyFile *sealing.KeyFile
	// kinds are the agents of a crew, if they are not those of the workflow order.
	kinds []string
	// eventsID is the ID of the events topic, by which produce requests name it.
	eventsID [16]byte
}

// brokers are the brokers that the world's clients connect to.
type brokers interface {
	kafkatest.Reachable
	Close() error
}

// order is a workflow of five steps with a fork, undos and a pivot.
const order = `
workflow: order
defaults:
  complete_within: 5s
  retry: {attempts: 3, backoff: 200ms, factor: 2, max_backoff: 1s, then: undo}
  undo: {retry: {attempts: 3, backoff: 200ms, factor: 2, max_backoff: 1s}}
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
    retry: {attempts: 3, backoff: 200ms, factor: 2, max_backoff: 1s, then: park}
  notify:
    needs: [ship]
    agent: mail
    with: {id: "${ task.id }"}
    retry: {attempts: 2, backoff: 200ms, factor: 2, max_backoff: 1s, then: park}
output: "${ steps.ship.output }"
`

// setup builds a world in memory with the given number of partitions. The observer starts when the first node has
// created the topics.
func setup(t *testing.T, partitions int32) *world {
	t.Helper()
	return setupOn(t, partitions, "")
}

// setupOn keeps the broker's logs in a directory.
func setupOn(t *testing.T, partitions int32, dir string) *world {
	t.Helper()
	w := &world{t: t, network: new(embedded.VirtualNetwork), parts: partitions}
	w.broker = kafkatest.StartBroker(t, embedded.Config{Network: w.network, Dir: dir})
	w.connect()
	return w
}

// way returns a new network connection to the brokers.
func (w *world) way() *network {
	n := newNetwork(w.network)
	n.base = w.latency
	return n
}

// reach returns how to reach the brokers through a network.
type reach struct {
	brokers
	way *network
}

func (r reach) ClusterConfig() kafka.ClusterConfig {
	cc := r.brokers.ClusterConfig()
	cc.Dialer = r.way.Dial
	return cc
}

func (w *world) connect() {
	w.t.Helper()
	w.topics, w.logs = kafka.Topics{Namespace: events.DefaultNamespace}, &logBook{}
	own := w.way()
	w.t.Cleanup(own.cut)
	w.cluster = kafkatest.Connect(w.t, reach{w.broker, own})
	var err error
	w.producer, err = kafka.NewProducer(w.cluster)
	require.NoError(w.t, err)
	w.t.Cleanup(w.producer.Close)
}

// process is one running node with its connection.
type process struct {
	*node.Node
	t       *testing.T
	dir     string
	name    string
	net     *network
	cluster *kafka.Cluster
	cancel  context.CancelFunc
	ended   chan error
	gone    bool
}

// open opens a node on a directory. The caller must run it or close it.
func (w *world) open(dir string, change ...func(*node.Config)) (*process, error) {
	w.t.Helper()
	w.serial++
	p := &process{t: w.t, dir: dir, net: w.way(), ended: make(chan error, 1)}
	cc := w.broker.ClusterConfig()
	cc.Dialer = p.net.Dial
	cc.Logger = w.logs.logger()
	var err error
	p.cluster, err = kafka.Connect(cc)
	require.NoError(w.t, err)
	cfg := node.Config{
		Cluster: p.cluster, Namespace: w.topics.Namespace, Keys: w.keys(p.cluster), Name: fmt.Sprintf("node-%d", w.serial), Dir: dir, Partitions: w.parts, Alone: true, Logger: w.logs.logger(),
	}
	for _, c := range change {
		c(&cfg)
	}
	p.name = cfg.Name
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if p.Node, err = node.Open(ctx, cfg); err != nil {
		p.cluster.Close()
		p.net.cut()
		return nil, err
	}
	return p, nil
}

// node starts a node, which stops at the end of the test.
func (w *world) node(dir string, change ...func(*node.Config)) *process {
	w.t.Helper()
	p, err := w.open(dir, change...)
	require.NoError(w.t, err)
	p.run()
	if w.watch == nil {
		w.eventsID, err = w.cluster.TopicID(context.Background(), w.topics.Events())
		require.NoError(w.t, err)
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

// state opens the store of a stopped node and calls fn.
func (w *world) state(dir string, fn func(p *process), change ...func(*node.Config)) {
	w.t.Helper()
	p, err := w.open(dir, change...)
	require.NoError(w.t, err)
	defer func() {
		require.NoError(w.t, p.Close())
		p.cluster.Close()
		p.net.cut()
	}()
	fn(p)
}

// proveHashes folds each partition from nothing up to the position of each stopped node's store, and
// compares the hashes.
func (w *world) proveHashes(dirs ...string) {
	w.t.Helper()
	for _, dir := range dirs {
		w.state(dir, w.proveHash)
	}
}

func (w *world) proveHash(p *process) {
	w.t.Helper()
	for part := range w.parts {
		info, err := p.Store().PartitionInfo(part)
		require.NoError(w.t, err)
		require.Positive(w.t, info.Next)
		require.Equal(w.t, w.foldTo(part, info.Next), info.StateHash, "partition %d of %s at offset %d", part, p.dir, info.Next)
	}
	require.NoError(w.t, p.Store().CheckIndexes())
}

// memory is the data directory of a node whose disk is in memory.
const memory = "/data"

// foldTo folds a partition from nothing, with events as the only source.
func (w *world) foldTo(part int32, to int64) events.Hash {
	w.t.Helper()
	store, err := projector.Open(memory, projector.Options{Namespace: "fold", FS: projectortest.NewDisk().FS()})
	require.NoError(w.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	hash, err := node.Fold(ctx, w.cluster, store, node.FoldRange{Topic: w.topics.Events(), Partition: part, To: to})
	require.NoError(w.t, err)
	require.NoError(w.t, store.Close())
	return hash
}

// kill first cuts the node off from the broker, so that nothing more arrives from it.
func (p *process) kill() {
	p.net.cut()
	_ = p.stop()
}

// disturb makes each of the node's appends to events get its fate from the fault.
func (w *world) disturb(p *process, fault func(n int) fate) {
	p.net.inject([][]byte{w.eventsID[:], []byte(w.topics.Events())}, fault)
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

// submission is a plain submission to the workflow order.
func submission(id string, input any) events.Record { return submissionOf("order", id, input) }

func submissionOf(workflow, id string, input any) events.Record {
	b, _ := json.Marshal(map[string]any{"id": id, "workflow": workflow, "input": input})
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

// request sends a request of an operator.
func (w *world) request(kind events.Verb, task, id string) {
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
