package embedded_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

func TestASecondBrokerLearnsWhoHoldsTheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := kafkatest.StartBroker(t, embedded.Config{Dir: dir})
	_, err := embedded.Open(embedded.Config{Dir: dir})
	locked, ok := errors.AsType[*embedded.LockedError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, filepath.Join(dir, "LOCK"), locked.Path)
	require.Contains(t, err.Error(), "process "+strconv.Itoa(os.Getpid())+", started ")
	require.NoError(t, first.Close())
	second, err := embedded.Open(embedded.Config{Dir: dir})
	require.NoError(t, err, "a released lock can be taken")
	require.NoError(t, second.Close())
}

func TestTheLockFileMayLieElsewhere(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	cfg := embedded.Config{Dir: filepath.Join(root, "broker"), LockFile: filepath.Join(root, "LOCK")}
	kafkatest.StartBroker(t, cfg)
	_, err := embedded.Open(cfg)
	require.ErrorAs(t, err, new(*embedded.LockedError))
	info, err := os.Stat(cfg.Dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestABusyPortIsReported(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dir := t.TempDir()
	_, err = embedded.Open(embedded.Config{Dir: dir, Addr: l.Addr().String()})
	busy, ok := errors.AsType[*embedded.PortBusyError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, l.Addr().String(), busy.Addr)
	require.NoError(t, kafkatest.StartBroker(t, embedded.Config{Dir: dir}).Close(), "the lock was released")
}

func TestTheBrokerListensOnItsAddress(t *testing.T) {
	t.Parallel()
	b := kafkatest.StartBroker(t, embedded.Config{Addr: "127.0.0.1:0"})
	addr := b.Addr()
	require.NoError(t, b.Close())
	again := kafkatest.StartBroker(t, embedded.Config{Addr: addr})
	require.Equal(t, addr, again.Addr())
	kafkatest.Connect(t, again)
}

func TestAConfigurationIsRefusedWithAllItsFaults(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]embedded.Config{
		"not a loopback address": {Addr: "0.0.0.0:9092"},
		"not host:port":          {Addr: "9092"},
		"not a number":           {Addr: "127.0.0.1:http"},
		"name one":               {Network: new(embedded.VirtualNetwork), Addr: "127.0.0.1:0"},
	} {
		_, err := embedded.Open(cfg)
		require.ErrorContains(t, err, name)
	}
	_, err := kafka.Connect(kafka.ClusterConfig{Brokers: []string{"nowhere"}, SASL: &kafka.SASL{Mechanism: "NTLM"}})
	require.ErrorContains(t, err, "nowhere")
	require.ErrorContains(t, err, "NTLM")
	_, err = kafka.Connect(kafka.ClusterConfig{})
	require.ErrorContains(t, err, "no broker address")
}

// reopen stops the broker cleanly and starts it again, on a new network and address.
func reopen(t *testing.T, b *embedded.Broker, dir string) (*embedded.Broker, kafkatest.World) {
	t.Helper()
	if b != nil {
		require.NoError(t, b.Close())
	}
	b = kafkatest.StartBroker(t, embedded.Config{Dir: dir, Network: new(embedded.VirtualNetwork)})
	w := kafkatest.NewWorld(kafkatest.Connect(t, b))
	w.Topics.Namespace = "ns"
	return b, w
}

func TestACleanStopKeepsRecordsOffsetsAndGroups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, w := reopen(t, nil, dir)
	topic := w.Create(t)
	w.Write(t, topic, "a", "b", "c")
	id, err := w.TopicID(kafkatest.Within(t), topic)
	require.NoError(t, err)
	assigned := make(chan kafka.Partitions, 8)
	g, err := kafka.NewGroup(w.Cluster, kafka.GroupConfig{
		Group: "ns.agents", Topics: []string{topic}, MembershipOnly: true, OnAssigned: func(p kafka.Partitions) { assigned <- p },
	})
	require.NoError(t, err)
	t.Cleanup(g.Close)
	require.Len(t, (<-assigned)[topic], 2)
	require.NoError(t, g.Commit(kafkatest.Within(t), kafka.Offsets{topic: {0: 2}}))
	require.NoError(t, g.Leave(kafkatest.Within(t)))

	b, w = reopen(t, b, dir)
	again, err := w.TopicID(kafkatest.Within(t), topic)
	require.NoError(t, err)
	require.Equal(t, id, again)
	require.NoError(t, doctor.Audit(kafkatest.Within(t), w.Cluster, w.Spec()))
	require.Equal(t, []int64{3}, w.Write(t, topic, "d"))
	got, err := w.CommittedOffsets(kafkatest.Within(t), "ns.agents")
	require.NoError(t, err)
	require.EqualValues(t, 2, got[topic][0])
	r := w.Reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 1, 0)
	require.Equal(t, []string{"b", "c", "d"}, kafkatest.Values(kafkatest.Read(t, r, 3)))
	require.NoError(t, b.Close())
}
