package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestCriticARestartBehindABombOfTwoRecords(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		w.hire(nil)
		w.submit("t-before")
		w.watch.ended("t-before")

		cc := w.broker.ClusterConfig()
		c, err := kgo.NewClient(kgo.SeedBrokers(cc.Brokers...), kgo.Dialer(cc.Dialer), kgo.ProducerBatchMaxBytes(64<<20), kgo.ProducerLinger(100*time.Millisecond),
			kgo.MaxBufferedBytes(0), kgo.BrokerMaxWriteBytes(100<<20), kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
		zeros := make([]byte, 9<<20)
		bomb := []*kgo.Record{{Topic: w.topics.Submissions(), Value: zeros}, {Topic: w.topics.Submissions(), Value: zeros}}
		require.NoError(t, c.ProduceSync(context.Background(), bomb...).FirstErr())
		c.Close()
		last := bomb[1].Offset
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		require.NoError(t, n.Tasks().WaitPassed(ctx, events.Submissions, 0, last))
		time.Sleep(5 * time.Second)
		require.Len(t, w.read(w.topics.DeadSubmissions(), 0), 2)
		_, err = w.cluster.ReadAt(ctx, w.topics.Submissions(), 0, last)
		t.Logf("ReadAt of a record of the batch: %v", err)
		require.NoError(t, n.stop())
		n = w.node(dir)
		time.Sleep(20 * time.Second)
		s, _, err := n.Status(0)
		t.Logf("%+v %v", s, err)
		require.NoError(t, err)
	})
}

func TestCriticADeadLetterOfABombIsOwedAtATakeOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		w.hire(nil)
		w.submit("t-before")
		w.watch.ended("t-before")
		cc := w.broker.ClusterConfig()
		c, err := kgo.NewClient(kgo.SeedBrokers(cc.Brokers...), kgo.Dialer(cc.Dialer), kgo.ProducerBatchMaxBytes(64<<20), kgo.ProducerLinger(100*time.Millisecond),
			kgo.BrokerMaxWriteBytes(100<<20), kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
		bomb := &kgo.Record{Topic: w.topics.Submissions(), Value: make([]byte, 18<<20)}
		require.NoError(t, c.ProduceSync(context.Background(), bomb).FirstErr())
		c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		require.NoError(t, n.Tasks().WaitPassed(ctx, events.Submissions, 0, bomb.Offset))
		n.kill()
		require.Empty(t, w.read(w.topics.DeadSubmissions(), 0), "killed between fact and effect")
		n = w.node(dir)
		w.submit("t-after")
		w.watch.ended("t-after")
		time.Sleep(10 * time.Minute)
		s, _, err := n.Status(0)
		t.Logf("%+v %v; dead letters: %d", s, err, len(w.read(w.topics.DeadSubmissions(), 0)))
		require.NoError(t, err)
		require.Len(t, w.read(w.topics.DeadSubmissions(), 0), 1)
	})
}
