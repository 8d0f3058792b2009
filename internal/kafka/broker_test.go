package kafka_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

func TestASecondBrokerInADirectoryIsToldWhoHoldsIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := kafkatest.StartBroker(t, kafka.BrokerConfig{Dir: dir})
	_, err := kafka.OpenBroker(kafka.BrokerConfig{Dir: dir})
	locked, ok := errors.AsType[*kafka.LockedError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, filepath.Join(dir, "LOCK"), locked.Path)
	require.Contains(t, err.Error(), "process "+strconv.Itoa(os.Getpid())+", started ")
	require.NoError(t, first.Close())
	second, err := kafka.OpenBroker(kafka.BrokerConfig{Dir: dir})
	require.NoError(t, err, "a lock that was given back can be taken")
	require.NoError(t, second.Close())
}

func TestTheLockFileMayLieElsewhere(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	cfg := kafka.BrokerConfig{Dir: filepath.Join(root, "broker"), LockFile: filepath.Join(root, "LOCK")}
	kafkatest.StartBroker(t, cfg)
	_, err := kafka.OpenBroker(cfg)
	require.ErrorAs(t, err, new(*kafka.LockedError))
	info, err := os.Stat(cfg.Dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestABusyPortIsSaid(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dir := t.TempDir()
	_, err = kafka.OpenBroker(kafka.BrokerConfig{Dir: dir, Addr: l.Addr().String()})
	busy, ok := errors.AsType[*kafka.PortBusyError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, l.Addr().String(), busy.Addr)
	require.NoError(t, kafkatest.StartBroker(t, kafka.BrokerConfig{Dir: dir}).Close(), "the lock was given back")
}

func TestTheBrokerListensWhereItIsTold(t *testing.T) {
	t.Parallel()
	b := kafkatest.StartBroker(t, kafka.BrokerConfig{Addr: "127.0.0.1:0"})
	addr := b.Addr()
	require.NoError(t, b.Close())
	again := kafkatest.StartBroker(t, kafka.BrokerConfig{Addr: addr})
	require.Equal(t, addr, again.Addr())
	kafkatest.Connect(t, again)
}

func TestAConfigurationIsRefusedWithAllItsFaults(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]kafka.BrokerConfig{
		"not a loopback address": {Addr: "0.0.0.0:9092"},
		"not host:port":          {Addr: "9092"},
		"not a number":           {Addr: "127.0.0.1:http"},
		"name one":               {Network: new(kafka.VirtualNetwork), Addr: "127.0.0.1:0"},
	} {
		_, err := kafka.OpenBroker(cfg)
		require.ErrorContains(t, err, name)
	}
	_, err := kafka.Connect(kafka.ClusterConfig{Brokers: []string{"nowhere"}, SASL: &kafka.SASL{Mechanism: "NTLM"}})
	require.ErrorContains(t, err, "nowhere")
	require.ErrorContains(t, err, "NTLM")
	_, err = kafka.Connect(kafka.ClusterConfig{})
	require.ErrorContains(t, err, "no broker address")
}

func TestABrokerWithAUserAsksForHim(t *testing.T) {
	t.Parallel()
	b := kafkatest.StartBroker(t, kafka.BrokerConfig{User: "sagalog", Password: "secret"})
	kafkatest.Connect(t, b)
	cfg := b.ClusterConfig()
	cfg.SASL = nil
	c, err := kafka.Connect(cfg)
	require.NoError(t, err)
	defer c.Close()
	require.Error(t, c.Ping(within(t)))
}

// reopen is a clean stop and start; the network, and so the address, is a new one.
func reopen(t *testing.T, b *kafka.Broker, dir string) (*kafka.Broker, world) {
	t.Helper()
	if b != nil {
		require.NoError(t, b.Close())
	}
	b = kafkatest.StartBroker(t, kafka.BrokerConfig{Dir: dir, Network: new(kafka.VirtualNetwork)})
	w := newWorld(t, kafkatest.Connect(t, b))
	w.topics.Namespace = "ns"
	return b, w
}

func TestACleanStopKeepsRecordsOffsetsAndGroups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, w := reopen(t, nil, dir)
	topic := w.create(t)
	w.write(t, topic, "a", "b", "c")
	id, err := w.TopicID(within(t), topic)
	require.NoError(t, err)
	g, ch := w.member(t, kafka.GroupConfig{MembershipOnly: true})
	awaitAll(t, ch, g, 2)
	require.NoError(t, g.Commit(within(t), kafka.Offsets{topic: {0: 2}}))
	require.NoError(t, g.Leave(within(t)))

	b, w = reopen(t, b, dir)
	again, err := w.TopicID(within(t), topic)
	require.NoError(t, err)
	require.Equal(t, id, again)
	require.NoError(t, kafka.Audit(within(t), w.Cluster, w.spec()))
	require.Equal(t, []int64{3}, w.write(t, topic, "d"))
	got, err := w.CommittedOffsets(within(t), "ns.agents")
	require.NoError(t, err)
	require.EqualValues(t, 2, got[topic][0])
	r := w.reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 1, 0)
	require.Equal(t, []string{"b", "c", "d"}, values(read(t, r, 3)))
	require.NoError(t, b.Close())
}

func TestClosingDoesNotWaitForABrokerThatIsGone(t *testing.T) {
	t.Parallel()
	b := kafkatest.StartBroker(t, kafka.BrokerConfig{})
	w := newWorld(t, kafkatest.Connect(t, b))
	topic := w.create(t)
	w.write(t, topic, "a")
	owner, err := kafka.NewOwnerProducer(w.Cluster, topic, 0)
	require.NoError(t, err)
	ch, done := answers()
	owner.Append(records("b"), done)
	require.NoError(t, await(t, ch).err)
	shared, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	r := w.reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 0, -1)
	read(t, r, 1)
	g, assigned := w.member(t, kafka.GroupConfig{InstanceID: "one"})
	awaitAll(t, assigned, g, 2)
	require.NoError(t, b.Close())

	owner.Append(records("c", "d"), done)
	dropped := make(chan error, 1)
	shared.Produce(t.Context(), events.Record{Topic: topic}, func(_ int32, _ int64, err error) { dropped <- err })
	began := time.Now()
	owner.Close()
	shared.Close()
	r.Close()
	g.Close()
	w.Close()
	require.Less(t, time.Since(began), 2*time.Second)
	require.ErrorIs(t, await(t, ch).err, kafka.ErrClosed, "what was in flight is answered: its outcome is unknown")
	require.ErrorIs(t, await(t, dropped), kafka.ErrClosed)
}

func TestAnAppendRidesOutARestartOfTheBroker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := kafkatest.StartBroker(t, kafka.BrokerConfig{Dir: dir})
	w := newWorld(t, kafkatest.Connect(t, b))
	topic := w.create(t)
	owner, err := kafka.NewOwnerProducer(w.Cluster, topic, 0)
	require.NoError(t, err)
	defer owner.Close()
	ch, done := answers()
	owner.Append(records("a"), done)
	require.NoError(t, await(t, ch).err)
	require.NoError(t, b.Close())
	owner.Append(records("b", "c"), done)
	require.Equal(t, 2, owner.InFlight())
	kafkatest.StartBroker(t, kafka.BrokerConfig{Dir: dir, Addr: b.Addr()})
	got := await(t, ch)
	require.NoError(t, got.err)
	require.Equal(t, []int64{1, 2}, got.offsets)
}

func TestTooManyRecordsInFlightAreRefusedWhole(t *testing.T) {
	t.Parallel()
	b := kafkatest.StartBroker(t, kafka.BrokerConfig{})
	w := newWorld(t, kafkatest.Connect(t, b))
	topic := w.create(t)
	owner, err := kafka.NewOwnerProducer(w.Cluster, topic, 0)
	require.NoError(t, err)
	defer owner.Close()
	require.NoError(t, b.Close())
	ch, done := answers()
	owner.Append(make([]events.Record, kafka.OwnerMaxInFlight), func([]int64, error) {})
	owner.Append(records("one too many"), done)
	require.ErrorIs(t, await(t, ch).err, kafka.ErrTooManyInFlight)
	require.Equal(t, kafka.OwnerMaxInFlight, owner.InFlight())
}

func TestAPositionBehindAMovedLogIsDataLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kafkatest.Start(t))
	topic := w.create(t)
	w.write(t, topic, "a", "b")
	r := w.reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 4, 0)
	_, f := readErr(t, r)
	loss, ok := errors.AsType[*kafka.DataLossError](f.Err)
	require.True(t, ok, "%v", f.Err)
	require.Equal(t, kafka.DataLossError{Topic: topic, ReadTo: 4, LostFrom: 2}, *loss)
}

func TestEverythingRunsInABubbleOfVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kafkatest.Start(t))
		topic := w.create(t)
		w.write(t, topic, "a")
		r := w.reader(t, kafka.ReaderConfig{})
		r.Add(topic, 0, 0, -1)
		require.Equal(t, []string{"a"}, values(read(t, r, 1)))
		<-time.After(24 * time.Hour) // of the bubble
		w.write(t, topic, "b")
		require.Equal(t, []string{"b"}, values(read(t, r, 1)))
	})
}

func TestAProducerOfAnotherEpochIsAnotherClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kafkatest.Start(t))
	topic := w.create(t)
	first, err := kafka.NewOwnerProducer(w.Cluster, topic, 0)
	require.NoError(t, err)
	second, err := kafka.NewOwnerProducer(w.Cluster, topic, 0)
	require.NoError(t, err)
	defer second.Close()
	ch, done := answers()
	first.Append(records("old"), done)
	require.Equal(t, []int64{0}, await(t, ch).offsets)
	second.Append(records("new"), done)
	require.Equal(t, []int64{1}, await(t, ch).offsets)
	first.Append(records("late"), done)
	require.Equal(t, []int64{2}, await(t, ch).offsets, "the broker does not fence: the gap in the second's offsets tells it")
	second.Append(records("next"), done)
	require.Equal(t, []int64{3}, await(t, ch).offsets)
	first.Close()
}

// A process of its own and one beside it speak to the same broker.
func TestAClientOfTheProcessAndOneOfThePortSeeTheSame(t *testing.T) {
	t.Parallel()
	broker := kafkatest.StartBroker(t, kafka.BrokerConfig{Dir: t.TempDir()})
	near := kafkatest.Connect(t, broker)
	far, err := kafka.Connect(kafka.ClusterConfig{Brokers: []string{broker.Addr()}, Embedded: true})
	require.NoError(t, err)
	defer far.Close()
	topics := kafka.Topics{Namespace: "both"}
	kafkatest.Create(t, near, topics.Base(1)...)
	for _, c := range []*kafka.Cluster{near, far} {
		p, err := kafka.NewProducer(c)
		require.NoError(t, err)
		defer p.Close()
		_, err = p.ProduceSync(t.Context(), events.Record{Topic: topics.Submissions(), Value: []byte("x")})
		require.NoError(t, err)
	}
	for _, c := range []*kafka.Cluster{near, far} {
		end, err := c.EndOffset(t.Context(), topics.Submissions(), 0)
		require.NoError(t, err)
		require.EqualValues(t, 2, end)
	}
}
