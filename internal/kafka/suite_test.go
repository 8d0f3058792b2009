package kafka_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// The suite is one set of behaviours for every kind of broker that we run on: the embedded one in memory, and on disk by TCP, in memory and
// with fsync; and Apache Kafka, if SAGALOG_TEST_BROKERS names one.

const brokersEnv = "SAGALOG_TEST_BROKERS"

var behaviours = map[string]func(*testing.T, world){
	"an append answers with contiguous offsets":                                     appendIsContiguous,
	"appends in flight keep their order":                                            appendsKeepOrder,
	"an owner's producer appends nothing after an error":                            producerEndsAfterError,
	"an oversized record is refused permanently":                                    oversizedIsPermanent,
	"a missing topic is refused permanently":                                        missingTopicIsPermanent,
	"a missing partition is refused permanently":                                    missingPartitionIsPermanent,
	"a dead-letter topic takes more than an input topic":                            deadLettersAreLarger,
	"topics are created once, and may be ensured again":                             ensureIsIdempotent,
	"the audit refuses what loses facts":                                            auditRefuses,
	"a topic that is created again has another ID":                                  topicIdentity,
	"a reader continues from an offset":                                             readerReadsOn,
	"a reader out of range stops with an error and never moves":                     readerOutOfRange,
	"a reader below the start of a trimmed log stops with an error":                 readerBelowStart,
	"records below an offset are deleted, and never by a lower one":                 recordsDeleted,
	"a reader adds, removes and pauses while it waits":                              readerChanges,
	"a committed reader waits for an open transaction and passes its marker":        readerCommitted,
	"a committed reader passes an aborted transaction":                              readerAborted,
	"a committed reader passes aborted records in front of an open transaction":     readerAbortedBeforeOpen,
	"a batch that decompresses to too much can be skipped by its offsets":           readerTooLarge,
	"a batch that decompresses to too many records can be skipped too":              readerTooMany,
	"one record is found by its coordinates":                                        readAt,
	"a range ends where the log ended when it was asked for":                        readRange,
	"a range passes the gaps of compaction, markers and aborts":                     readRangePassesMarkers,
	"the ends of many partitions come in one answer":                                endOffsets,
	"a reader without a group stores its positions":                                 storedPositions,
	"a group starts at the first record and continues from its commits":             groupCommits,
	"a mark is returned with its metadata, and a deposed member commits none":       groupMarks,
	"a member that leaves hands over at once, static or not":                        groupLeaves,
	"a static member that is removed loses its partitions at once":                  groupRemovesMember,
	"of two members with one name, the older is fenced and the newer stays":         groupFences,
	"a member that is removed rejoins":                                              groupComesBack,
	"a member that was removed cannot confirm its partitions":                       groupConfirms,
	"a partition is shared up to where another member may have read it":             groupSharesNothingItKept,
	"the static members of a group are known by name":                               groupNamesMembers,
	"a member without fetches still gets its partitions":                            groupMembershipOnly,
	"a closed client answers that it is closed":                                     closedAnswers,
	"headers, tombstones, empty values and time stamps come back as they were sent": recordsRoundTrip,
	"the leader stamps the records of a topic that asks for it":                     recordsStamped,
}

type world struct{ kafkatest.World }

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

// behaveOn runs the suite on a cluster, which the tests may share.
func behaveOn(t *testing.T, start func(testing.TB) *kafka.Cluster) {
	for name, behave := range behaviours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behave(t, newWorld(start(t)))
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

func newWorld(c *kafka.Cluster) world { return world{kafkatest.NewWorld(c)} }

// readErr polls until a partition stops, and returns the records before that and the failed fetch.
func readErr(t *testing.T, r *kafka.Reader) ([]events.Record, kafka.Fetch) {
	t.Helper()
	var out []events.Record
	for {
		fetches, err := r.Poll(kafkatest.Within(t))
		require.NoError(t, err)
		for _, f := range fetches {
			out = append(out, f.Records...)
			if f.Err != nil {
				return out, f
			}
		}
	}
}

// answer is the arguments of the done of an append.
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
	case <-kafkatest.Within(t).Done():
		require.FailNow(t, "no answer")
		panic("unreachable")
	}
}

func appendIsContiguous(t *testing.T, w world) {
	topic := w.Create(t)
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
	topic := w.Create(t)
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
	topic := w.Create(t)
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
	topic := w.Create(t)
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	_, err = p.ProduceSync(kafkatest.Within(t), events.Record{Topic: topic, Value: make([]byte, kafka.MaxMessageBytes+1)})
	require.True(t, kafka.IsPermanent(err), err)
	_, err = p.ProduceSync(kafkatest.Within(t), events.Record{Topic: topic, Value: []byte("small")})
	require.NoError(t, err, "the shared producer continues")
}

func missingTopicIsPermanent(t *testing.T, w world) {
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	_, err = p.ProduceSync(kafkatest.Within(t), events.Record{Topic: w.Topics.Work("nobody"), Value: []byte("v")})
	require.True(t, kafka.IsPermanent(err), err)
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
}

func missingPartitionIsPermanent(t *testing.T, w world) {
	topic := w.Create(t)
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	_, err = p.ProduceSync(kafkatest.Within(t), events.Record{Topic: topic, Partition: 99, Value: []byte("v")})
	require.True(t, kafka.IsPermanent(err), err)
}

func deadLettersAreLarger(t *testing.T, w world) {
	spec := kafka.TopicSpec{Name: w.Topics.DeadReports(), Partitions: 1, MaxMessageBytes: kafka.DeadMaxMessageBytes}
	kafkatest.Create(t, w.Cluster, spec)
	big := strings.Repeat("x", kafka.DeadMaxMessageBytes-1024)
	require.Equal(t, []int64{0}, w.Write(t, spec.Name, big))
	r, err := w.ReadAt(kafkatest.Within(t), spec.Name, 0, 0)
	require.NoError(t, err)
	require.Len(t, r.Value, len(big))
}

func ensureIsIdempotent(t *testing.T, w world) {
	specs := append(w.Topics.Base(3), w.Topics.WorkSpec("package", 3))
	require.NoError(t, kafka.EnsureTopics(kafkatest.Within(t), w.Cluster, specs...))
	require.NoError(t, kafka.EnsureTopics(kafkatest.Within(t), w.Cluster, specs...))
	require.NoError(t, doctor.Audit(kafkatest.Within(t), w.Cluster, specs...))
	n, err := w.Partitions(kafkatest.Within(t), w.Topics.Events())
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	_, err = w.Partitions(kafkatest.Within(t), "nobody")
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
	names, err := w.ListTopics(kafkatest.Within(t), w.Topics.Namespace+".work.")
	require.NoError(t, err)
	require.Equal(t, []string{w.Topics.Work("package")}, names)
}

func auditRefuses(t *testing.T, w world) {
	w.Create(t)
	more := w.Spec()
	more.Partitions = 3
	missing := w.Spec()
	missing.Name = w.Topics.Reports()
	w.refused(t, map[string]string{"partitions": "2", "the topic": "missing"}, more, missing)

	for setting, value := range map[string]string{
		"retention.ms": "1000", "retention.bytes": "1000000", "cleanup.policy": "compact", "max.message.bytes": "1000",
	} {
		w.refusesSetting(t, setting, value)
	}
}

// refused repeats the audit until it refuses exactly these settings with these values, and returns the problems. The audit asks any broker, and
// some learn of an altered setting a moment later.
func (w world) refused(t *testing.T, want map[string]string, specs ...kafka.TopicSpec) []doctor.TopicProblem {
	t.Helper()
	var refused *doctor.AuditError
	var err error
	require.Eventually(t, func() bool {
		if err = doctor.Audit(kafkatest.Within(t), w.Cluster, specs...); !errors.As(err, &refused) {
			return false
		}
		got := make(map[string]string)
		for _, p := range refused.Problems {
			got[p.Setting] = p.Value
		}
		return maps.Equal(want, got)
	}, kafkatest.StepWait, 20*time.Millisecond, "not %v but %v", want, err)
	return refused.Problems
}

// refusesSetting alters a setting of the events topic, expects the audit to name it, and follows its remedy.
func (w world) refusesSetting(t *testing.T, setting, value string) {
	t.Helper()
	kafkatest.AlterTopic(t, w, w.Topics.Events(), setting, value)
	got := w.refused(t, map[string]string{setting: value}, w.Spec())
	require.Contains(t, got[0].Remedy, "kafka-configs.sh")
	kafkatest.AlterTopic(t, w, w.Topics.Events(), setting, got[0].Want[strings.LastIndex(got[0].Want, " ")+1:])
	require.Eventually(t, func() bool { return doctor.Audit(kafkatest.Within(t), w.Cluster, w.Spec()) == nil }, kafkatest.StepWait, 20*time.Millisecond)
}

func topicIdentity(t *testing.T, w world) {
	topic := w.Create(t)
	first, err := w.TopicID(kafkatest.Within(t), topic)
	require.NoError(t, err)
	require.NotZero(t, first)
	kafkatest.DeleteTopic(t, w, topic)
	// The brokers of Apache Kafka learn of the deletion a moment later. Until then the topic seems to exist, and
	// EnsureTopics would wait for a topic that nobody creates.
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if kafka.EnsureTopics(ctx, w.Cluster, w.Spec()) != nil {
			return false
		}
		second, err := w.TopicID(kafkatest.Within(t), topic)
		return err == nil && second != first
	}, kafkatest.StepWait, 100*time.Millisecond)
	_, err = w.TopicID(kafkatest.Within(t), "nobody")
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
}
