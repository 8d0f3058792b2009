package kafka_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

func TestClosingDoesNotWaitForABrokerThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, closeWithoutABroker)
}

func closeWithoutABroker(t *testing.T) {
	b := kafkatest.StartBroker(t, embedded.Config{Network: new(embedded.VirtualNetwork)})
	w := newWorld(kafkatest.Connect(t, b))
	topic := w.Create(t)
	w.Write(t, topic, "a")
	owner, err := kafka.NewOwnerProducer(w.Cluster, topic, 0)
	require.NoError(t, err)
	ch, done := answers()
	owner.Append(records("b"), done)
	require.NoError(t, await(t, ch).err)
	shared, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	r := w.Reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 0, -1)
	kafkatest.Read(t, r, 1)
	g, assigned := w.member(t, kafka.GroupConfig{InstanceID: "one"})
	awaitAll(t, assigned, g, 2)
	require.NoError(t, b.Close())

	owner.Append(records("c", "d"), done)
	dropped := make(chan error, 1)
	shared.Produce(t.Context(), events.Record{Topic: topic}, func(_ int32, _ int64, err error) { dropped <- err })
	owner.Close()
	shared.Close()
	r.Close()
	g.Close()
	w.Close()
	require.ErrorIs(t, await(t, ch).err, kafka.ErrClosed, "the append in flight gets an answer, and its outcome is unknown")
	require.ErrorIs(t, await(t, dropped), kafka.ErrClosed)
}

func TestAnAppendSurvivesARestartOfTheBroker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := kafkatest.StartBroker(t, embedded.Config{Dir: dir})
	w := newWorld(kafkatest.Connect(t, b))
	topic := w.Create(t)
	owner, err := kafka.NewOwnerProducer(w.Cluster, topic, 0)
	require.NoError(t, err)
	defer owner.Close()
	ch, done := answers()
	owner.Append(records("a"), done)
	require.NoError(t, await(t, ch).err)
	require.NoError(t, b.Close())
	owner.Append(records("b", "c"), done)
	require.Equal(t, 2, owner.InFlight())
	kafkatest.StartBroker(t, embedded.Config{Dir: dir, Addr: b.Addr()})
	got := await(t, ch)
	require.NoError(t, got.err)
	require.Equal(t, []int64{1, 2}, got.offsets)
}

func TestTooManyRecordsInFlightAreRefusedWhole(t *testing.T) {
	t.Parallel()
	b := kafkatest.StartBroker(t, embedded.Config{})
	w := newWorld(kafkatest.Connect(t, b))
	topic := w.Create(t)
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
	w := newWorld(kafkatest.Start(t))
	topic := w.Create(t)
	w.Write(t, topic, "a", "b")
	r := w.Reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 4, 0)
	_, f := readErr(t, r)
	loss, ok := errors.AsType[*kafka.DataLossError](f.Err)
	require.True(t, ok, "%v", f.Err)
	require.Equal(t, kafka.DataLossError{Topic: topic, ReadTo: 4, LostFrom: 2}, *loss)
}

func TestEverythingRunsInABubbleOfVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(kafkatest.Start(t))
		topic := w.Create(t)
		w.Write(t, topic, "a")
		r := w.Reader(t, kafka.ReaderConfig{})
		r.Add(topic, 0, 0, -1)
		require.Equal(t, []string{"a"}, kafkatest.Values(kafkatest.Read(t, r, 1)))
		<-time.After(24 * time.Hour) // inside the bubble
		w.Write(t, topic, "b")
		require.Equal(t, []string{"b"}, kafkatest.Values(kafkatest.Read(t, r, 1)))
	})
}

func TestEachEpochHasASeparateProducer(t *testing.T) {
	t.Parallel()
	w := newWorld(kafkatest.Start(t))
	topic := w.Create(t)
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
	require.Equal(t, []int64{2}, await(t, ch).offsets, "the broker does not fence the first; the second sees the gap in its offsets")
	second.Append(records("next"), done)
	require.Equal(t, []int64{3}, await(t, ch).offsets)
	first.Close()
}

// A client connected in memory and one connected by TCP use the same broker.
func TestInMemoryAndTCPClientsSeeTheSame(t *testing.T) {
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{Dir: t.TempDir()})
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
