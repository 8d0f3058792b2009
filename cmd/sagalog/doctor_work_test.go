package main

import (
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

func TestDoctorListsWorkTopicsThatNoWorkflowNames(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_BROKERS=" + broker.Addr(), "SAGALOG_NODE=n1", "SAGALOG_HTTP=" + freePort(t)}}
	write(t, filepath.Join(at.dir, "workflows", "order.yaml"), "workflow: order\nsteps:\n  pack: {agent: packer, undo: {agent: unpacker}}\n")
	n := at.start(t, "serve", "--workflows", "workflows")
	e := n.endpoints(filepath.Join(at.dir, "sagalog-data"))
	topics := kafka.Topics{Namespace: "sagalog"}
	for _, agent := range []string{"packer", "unpacker", "gone"} {
		kafkatest.Create(t, kafkatest.Connect(t, broker), topics.WorkSpec(agent, 8))
	}
	unnamed := func() []doctor.Finding {
		t.Helper()
		d := at.run(t, "doctor", "-o", "jsonl")
		require.Equal(t, 0, d.code())
		return examined(t, d)[doctor.CheckTopics][doctor.StatusWarn]
	}
	found := unnamed()
	require.Len(t, found, 1)
	require.Equal(t, "no workflow names the agents of these work topics: sagalog.work.gone", found[0].What)
	require.Contains(t, found[0].Remedy, "kafka-topics.sh --bootstrap-server "+broker.Addr()+" --delete --topic sagalog.work.gone")
	deleted := at.run(t, "workflow", "delete", "order", "--api", e.HTTP)
	require.Equal(t, 0, deleted.code(), deleted.err.String())
	require.Equal(t, "no workflow names the agents of these work topics: sagalog.work.gone, sagalog.work.packer, sagalog.work.unpacker", unnamed()[0].What)
	require.Equal(t, 0, n.stop())
}
