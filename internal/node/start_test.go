package node_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

const waits = "the start is waiting for the brokers"

// starting opens a node in a world that has a namespace, and ends it.
func (w *world) starting(cfg node.Config) error {
	w.t.Helper()
	way := w.way()
	defer way.cut()
	c, err := kafka.Connect(reach{w.broker, way}.ClusterConfig())
	require.NoError(w.t, err)
	defer c.Close()
	cfg.Cluster, cfg.Name, cfg.Dir, cfg.Logger = c, "late", w.t.TempDir(), w.logs.logger()
	n, err := node.Open(w.t.Context(), cfg)
	if err != nil {
		return err
	}
	return n.Close()
}

// minute is a patience of a minute.
func (w *world) minute() *kafka.Patience {
	return &kafka.Patience{Within: time.Minute, Logger: w.logs.logger()}
}

// A request that a start makes fails for a while. Each kind of request belongs to another step of the start.
func TestAStartWaitsForBrokers(t *testing.T) {
	for _, fault := range []kafkatest.Fault{
		{Request: "Metadata", Topic: "sagalog.definitions", Code: "LEADER_NOT_AVAILABLE"},
		{Request: "ListOffsets", Topic: "sagalog.definitions", Code: "OFFSET_NOT_AVAILABLE"},
		{Request: "ListOffsets", Topic: "sagalog.events", Code: "OFFSET_NOT_AVAILABLE"},
	} {
		t.Run(fault.Request+" "+fault.Topic, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, brokers := fencing(t)
				require.NoError(t, w.node(t.TempDir()).stop())
				faulty := brokers.Fault(fault)
				heal := time.AfterFunc(40*time.Second, faulty.Remove)
				defer heal.Stop()
				begun := time.Now()
				require.NoError(t, w.starting(node.Config{Patience: w.minute()}))
				require.GreaterOrEqual(t, time.Since(begun), 40*time.Second)
				require.Positive(t, faulty.Hits())
				require.Len(t, w.logs.find(waits), 1)
			})
		})
	}
}

// Two of three brokers are alive when the namespace is made, and its topics need three.
func TestANewNamespaceWaitsForEnoughBrokers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, brokers := fencing(t)
		cfg := several{brokers}
		w.broker = cfg
		few := brokers.Fault(kafkatest.Fault{Request: "CreateTopics", Topic: "sagalog.definitions", Code: "INVALID_REPLICATION_FACTOR"})
		err := w.starting(node.Config{Patience: &kafka.Patience{Within: 5 * time.Second, Logger: w.logs.logger()}})
		require.ErrorContains(t, err, "fewer brokers are alive than the topic sagalog.definitions needs for its copies: INVALID_REPLICATION_FACTOR")
		require.ErrorContains(t, err, "start the missing brokers (this program waits for them when it starts), or create the topic with fewer copies by: ")
		heal := time.AfterFunc(40*time.Second, few.Remove)
		defer heal.Stop()
		require.NoError(t, w.starting(node.Config{Patience: w.minute()}))
		require.Len(t, w.logs.find(waits), 2)
	})
}

func TestAStartThatWaitsInVainEndsWithTheReason(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, brokers := fencing(t)
		require.NoError(t, w.node(t.TempDir()).stop())
		brokers.Fault(kafkatest.Fault{Request: "ListOffsets", Topic: "sagalog.events", Code: "OFFSET_NOT_AVAILABLE"})
		begun, shared := time.Now(), w.minute()
		err := w.starting(node.Config{Patience: shared})
		require.ErrorContains(t, err, "OFFSET_NOT_AVAILABLE")
		require.ErrorContains(t, err, "within 1m0s")
		require.Less(t, time.Since(begun), 2*time.Minute)

		begun = time.Now() // the minute was one for all steps that share it
		require.ErrorContains(t, w.starting(node.Config{Patience: shared}), "within 1m0s")
		require.Less(t, time.Since(begun), 30*time.Second)
	})
}

func TestAStartThatWaitingCannotHelpEndsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, brokers := fencing(t)
		require.NoError(t, w.node(t.TempDir()).stop())
		begun := time.Now()
		err := w.starting(node.Config{Patience: w.minute(), Partitions: 5, PartitionsSet: true})
		require.ErrorContains(t, err, "has 4 partitions")
		denied := brokers.Fault(kafkatest.Fault{Request: "ListOffsets", Topic: "sagalog.events", Code: "TOPIC_AUTHORIZATION_FAILED"})
		require.ErrorContains(t, w.starting(node.Config{Patience: w.minute()}), "TOPIC_AUTHORIZATION_FAILED")
		denied.Remove()
		kafkatest.AlterTopic(t, w.broker, w.topics.Events(), "retention.ms", "1000")
		require.ErrorContains(t, w.starting(node.Config{Patience: w.minute()}), "retention.ms")
		require.Less(t, time.Since(begun), 10*time.Second)
		require.Empty(t, w.logs.find(waits))
	})
}
