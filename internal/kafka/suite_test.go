package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The suite is one set of behaviours, kept by each broker that we run on: the embedded one in memory, the embedded one
// on disk over TCP and within its process, and, where SAGALOG_TEST_BROKERS names one, Apache Kafka.

const brokersEnv = "SAGALOG_TEST_BROKERS"

// stepWait bounds one step of a test against any broker.
const stepWait = 30 * time.Second

var behaviours = map[string]func(*testing.T, world){
	"an append answers with contiguous offsets":                                     appendIsContiguous,
	"appends in flight keep their order":                                            appendsKeepOrder,
	"an owner's producer appends nothing after an error":                            producerEndsAfterError,
	"an oversized record is refused for good":                                       oversizedIsPermanent,
	"a missing topic is refused for good":                                           missingTopicIsPermanent,
	"a missing partition is refused for good":                                       missingPartitionIsPermanent,
	"a dead-letter topic takes more than an input topic":                            deadLettersAreLarger,
	"topics are created once, and may be ensured again":                             ensureIsIdempotent,
	"the audit refuses what loses facts":                                            auditRefuses,
	"a topic has another identity when it is created again":                         topicIdentity,
	"a reader reads on from an offset":                                              readerReadsOn,
	"a reader out of range stops with an error and never moves by itself":           readerOutOfRange,
	"a reader below the start of a trimmed log stops with an error":                 readerBelowStart,
	"a reader adds, removes and pauses while it waits":                              readerChanges,
	"a committed reader waits for an open transaction and passes its marker":        readerCommitted,
	"a committed reader passes an aborted transaction":                              readerAborted,
	"a committed reader passes aborted records in front of an open transaction":     readerAbortedBeforeOpen,
	"a batch that unpacks to too much has coordinates to skip by":                   readerTooLarge,
	"one record is found by its coordinates":                                        readAt,
	"a range ends where the log ended when it was asked for":                        readRange,
	"a range passes the gaps of compaction, markers and aborts":                     readRangePassesMarkers,
	"the ends of many partitions come in one answer":                                endOffsets,
	"trimming keeps the last record":                                                trimKeepsLast,
	"a group starts at the first record and goes on from what was committed":        groupCommits,
	"a mark comes back with its metadata, and a deposed member commits none":        groupMarks,
	"a member that leaves hands over at once, static or not":                        groupLeaves,
	"a static member that is removed loses its partitions at once":                  groupRemovesMember,
	"of two members with one name the older is told, and the newer stays":           groupFences,
	"a member that is removed comes back by itself":                                 groupComesBack,
	"a member that was put out cannot confirm that it has its partitions":           groupConfirms,
	"what another member may have read is told, and what it cannot have read":       groupSharesNothingItKept,
	"the static members of a group are known by name":                               groupNamesMembers,
	"a member without fetches still gets its partitions":                            groupMembershipOnly,
	"what is closed answers that it is closed":                                      closedAnswers,
	"headers, tombstones, empty values and time stamps come back as they were sent": recordsRoundTrip,
}

// world is a cluster and a namespace that no other test uses.
type world struct {
	*kafka.Cluster
	topics kafka.Topics
	// client is a bare client for what the package does not do: transactions and foreign settings.
	client func(t *testing.T, opts ...kgo.Opt) *kgo.Client
}

func TestBehaviour(t *testing.T) {
	t.Parallel()
	worlds := map[string]func(testing.TB) *kafka.Cluster{
		"embedded in memory":      kafkatest.Start,
		"embedded on disk by TCP": kafkatest.StartTCP,
		"embedded on disk, ours":  kafkatest.StartLocal,
		"embedded with fsync":     kafkatest.StartSynced,
	}
	if os.Getenv(brokersEnv) == "" {
		t.Log("not run against Apache Kafka: set " + brokersEnv + "=host:port[,host:port] to do so")
	} else {
		worlds["apache kafka"] = apache
	}
	for kind, start := range worlds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			behaveOn(t, start)
		})
	}
}

// behaveOn runs the suite; start connects to a cluster, which the tests may share.
func behaveOn(t *testing.T, start func(testing.TB) *kafka.Cluster) {
	for name, behave := range behaviours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behave(t, newWorld(t, start(t)))
		})
	}
}

func apache(t testing.TB) *kafka.Cluster {
	t.Helper()
	c, err := kafka.Connect(kafka.ClusterConfig{Brokers: strings.Split(os.Getenv(brokersEnv), ",")})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func newWorld(t *testing.T, c *kafka.Cluster) world {
	t.Helper()
	return world{
		Cluster: c,
		topics:  kafka.Topics{Namespace: fmt.Sprintf("t%08x", rand.Uint32())},
		client: func(t *testing.T, opts ...kgo.Opt) *kgo.Client {
			t.Helper()
			client, err := kafka.OpenBare(c, opts...)
			require.NoError(t, err)
			t.Cleanup(client.Close)
			return client
		},
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepWait)
	t.Cleanup(cancel)
	return ctx
}

// create makes the events topic with two partitions and returns its name.
func (w world) create(t *testing.T) string {
	t.Helper()
	kafkatest.Create(t, w.Cluster, w.spec())
	return w.topics.Events()
}

func (w world) spec() kafka.TopicSpec {
	return kafka.TopicSpec{Name: w.topics.Events(), Partitions: 2, MaxMessageBytes: kafka.MaxMessageBytes}
}

// write sends values to partition 0, one record each, and returns their offsets.
func (w world) write(t *testing.T, topic string, values ...string) []int64 {
	t.Helper()
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	recs := make([]events.Record, len(values))
	for i, v := range values {
		recs[i] = events.Record{Topic: topic, Key: []byte("k"), Value: []byte(v)}
	}
	offsets, err := p.ProduceSync(within(t), recs...)
	require.NoError(t, err)
	return offsets
}

func (w world) reader(t *testing.T, cfg kafka.ReaderConfig) *kafka.Reader {
	t.Helper()
	r, err := kafka.NewReader(w.Cluster, cfg)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// read polls until n records have come, or an error.
func read(t *testing.T, r *kafka.Reader, n int) []events.Record {
	t.Helper()
	var out []events.Record
	for len(out) < n {
		fetches, err := r.Poll(within(t))
		require.NoError(t, err)
		for _, f := range fetches {
			require.NoError(t, f.Err)
			out = append(out, f.Records...)
		}
	}
	return out
}

// readErr polls until a partition stops, and returns what came before it and why it did.
func readErr(t *testing.T, r *kafka.Reader) ([]events.Record, kafka.Fetch) {
	t.Helper()
	var out []events.Record
	for {
		fetches, err := r.Poll(within(t))
		require.NoError(t, err)
		for _, f := range fetches {
			out = append(out, f.Records...)
			if f.Err != nil {
				return out, f
			}
		}
	}
}

func values(recs []events.Record) []string {
	out := []string{}
	for _, r := range recs {
		if !r.Control {
			out = append(out, string(r.Value))
		}
	}
	return out
}

// answer is what an append's done was called with.
type answer struct {
	offsets []int64
	err     error
}

func answers() (chan answer, func([]int64, error)) {
	ch := make(chan answer, 64)
	return ch, func(offsets []int64, err error) { ch <- answer{offsets, err} }
}

func await[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-within(t).Done():
		require.FailNow(t, "no answer")
		panic("unreachable")
	}
}

func appendIsContiguous(t *testing.T, w world) {
	topic := w.create(t)
	p, err := kafka.NewOwnerProducer(w.Cluster, topic, 1)
	require.NoError(t, err)
	defer p.Close()
	ch, done := answers()
	p.Append(records("a", "b", "c"), done)
	got := await(t, ch)
	require.NoError(t, got.err)
	require.Equal(t, []int64{0, 1, 2}, got.offsets)
	p.Append(nil, done)
	require.Equal(t, answer{}, await(t, ch))
	require.Zero(t, p.InFlight())
}

func records(values ...string) []events.Record {
	out := make([]events.Record, len(values))
	for i, v := range values {
		out[i] = events.Record{Key: []byte("k"), Value: []byte(v), Headers: []events.Header{{Key: "i", Value: []byte{byte(i)}}}}
	}
	return out
}

func appendsKeepOrder(t *testing.T, w world) {
	topic := w.create(t)
	p, err := kafka.NewOwnerProducer(w.Cluster, topic, 0)
	require.NoError(t, err)
	defer p.Close()
	ch, done := answers()
	var want int64
	for range 20 {
		p.Append(records("a", "b", "c", "d", "e"), done)
	}
	for range 20 {
		got := await(t, ch)
		require.NoError(t, got.err)
		for _, o := range got.offsets {
			require.Equal(t, want, o)
			want++
		}
	}
}

func producerEndsAfterError(t *testing.T, w world) {
	topic := w.create(t)
	p, err := kafka.NewOwnerProducer(w.Cluster, topic, 0)
	require.NoError(t, err)
	defer p.Close()
	ch, done := answers()
	big := records("small", strings.Repeat("x", kafka.MaxMessageBytes+1), "small too")
	p.Append(big, done)
	got := await(t, ch)
	require.True(t, kafka.IsPermanent(got.err), got.err)
	require.Nil(t, got.offsets)
	p.Append(records("after"), done)
	require.ErrorIs(t, await(t, ch).err, kafka.ErrEpochEnded)
}

func oversizedIsPermanent(t *testing.T, w world) {
	topic := w.create(t)
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	_, err = p.ProduceSync(within(t), events.Record{Topic: topic, Value: make([]byte, kafka.MaxMessageBytes+1)})
	require.True(t, kafka.IsPermanent(err), err)
	_, err = p.ProduceSync(within(t), events.Record{Topic: topic, Value: []byte("small")})
	require.NoError(t, err, "the shared producer goes on")
}

func missingTopicIsPermanent(t *testing.T, w world) {
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	_, err = p.ProduceSync(within(t), events.Record{Topic: w.topics.Work("nobody"), Value: []byte("v")})
	require.True(t, kafka.IsPermanent(err), err)
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
}

func missingPartitionIsPermanent(t *testing.T, w world) {
	topic := w.create(t)
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	_, err = p.ProduceSync(within(t), events.Record{Topic: topic, Partition: 99, Value: []byte("v")})
	require.True(t, kafka.IsPermanent(err), err)
}

func deadLettersAreLarger(t *testing.T, w world) {
	spec := kafka.TopicSpec{Name: w.topics.DeadReports(), Partitions: 1, MaxMessageBytes: kafka.DeadMaxMessageBytes}
	kafkatest.Create(t, w.Cluster, spec)
	big := strings.Repeat("x", kafka.DeadMaxMessageBytes-1024)
	require.Equal(t, []int64{0}, w.write(t, spec.Name, big))
	r, err := w.ReadAt(within(t), spec.Name, 0, 0)
	require.NoError(t, err)
	require.Len(t, r.Value, len(big))
}

func ensureIsIdempotent(t *testing.T, w world) {
	specs := append(w.topics.Base(3), w.topics.WorkSpec("package", 3))
	require.NoError(t, kafka.EnsureTopics(within(t), w.Cluster, specs...))
	require.NoError(t, kafka.EnsureTopics(within(t), w.Cluster, specs...))
	require.NoError(t, kafka.Audit(within(t), w.Cluster, specs...))
	n, err := w.Partitions(within(t), w.topics.Events())
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	_, err = w.Partitions(within(t), "nobody")
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
	names, err := w.ListTopics(within(t), w.topics.Namespace+".work.")
	require.NoError(t, err)
	require.Equal(t, []string{w.topics.Work("package")}, names)
}

func auditRefuses(t *testing.T, w world) {
	w.create(t)
	more := w.spec()
	more.Partitions = 3
	missing := w.spec()
	missing.Name = w.topics.Reports()
	w.refused(t, map[string]string{"partitions": "2", "the topic": "missing"}, more, missing)

	for setting, value := range map[string]string{
		"retention.ms": "1000", "retention.bytes": "1000000", "cleanup.policy": "compact", "max.message.bytes": "1000",
	} {
		w.refusesSetting(t, setting, value)
	}
}

// refused audits until exactly these settings are refused for these values, and returns the problems. Of several brokers
// one may not have heard yet what was altered a moment ago, and the audit asks any.
func (w world) refused(t *testing.T, want map[string]string, specs ...kafka.TopicSpec) []kafka.TopicProblem {
	t.Helper()
	var refused *kafka.AuditError
	var err error
	require.Eventually(t, func() bool {
		if err = kafka.Audit(within(t), w.Cluster, specs...); !errors.As(err, &refused) {
			return false
		}
		got := make(map[string]string)
		for _, p := range refused.Problems {
			got[p.Setting] = p.Value
		}
		return maps.Equal(want, got)
	}, stepWait, 20*time.Millisecond, "not %v but %v", want, err)
	return refused.Problems
}

// refusesSetting alters a setting of the events topic, expects the audit to name it, and does what the audit says.
func (w world) refusesSetting(t *testing.T, setting, value string) {
	t.Helper()
	kafka.AlterTopic(t, w.Cluster, w.topics.Events(), setting, value)
	got := w.refused(t, map[string]string{setting: value}, w.spec())
	require.Contains(t, got[0].Remedy, "kafka-configs.sh")
	kafka.AlterTopic(t, w.Cluster, w.topics.Events(), setting, got[0].Want[strings.LastIndex(got[0].Want, " ")+1:])
	require.Eventually(t, func() bool { return kafka.Audit(within(t), w.Cluster, w.spec()) == nil }, stepWait, 20*time.Millisecond)
}

func topicIdentity(t *testing.T, w world) {
	topic := w.create(t)
	first, err := w.TopicID(within(t), topic)
	require.NoError(t, err)
	require.NotZero(t, first)
	kafka.DeleteTopic(t, w.Cluster, topic)
	// Apache Kafka tells its brokers of the deletion a moment later. Until then the topic seems to be there, and then
	// nobody creates the one that is waited for.
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if kafka.EnsureTopics(ctx, w.Cluster, w.spec()) != nil {
			return false
		}
		second, err := w.TopicID(within(t), topic)
		return err == nil && second != first
	}, stepWait, 100*time.Millisecond)
	_, err = w.TopicID(within(t), "nobody")
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
}
