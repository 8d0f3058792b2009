package main

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

func TestDoctorSaysWhatKeepsTheLevelDown(t *testing.T) {
	t.Parallel()
	old, current := events.Presence{Instance: "n1"}, events.Presence{Instance: "n2", Level: 2} // a build before levels names none
	for name, c := range map[string]struct {
		level, build int
		nodes        []events.Presence
		want         doctor.Finding
	}{
		"nothing": {2, 2, []events.Presence{current}, doctor.Finding{Status: doctor.StatusOK,
			What: "the namespace has level 2, and this build understands 2; live nodes understand: n2 2"}},
		"nobody has raised it": {1, 2, []events.Presence{current}, doctor.Finding{Status: doctor.StatusWarn,
			What:   "the namespace has level 1, and this build understands 2; live nodes understand: n2 2",
			Remedy: "run `sagalog namespace upgrade`"}},
		"an older node": {1, 2, []events.Presence{old, current}, doctor.Finding{Status: doctor.StatusWarn,
			What:   "the namespace has level 1, and this build understands 2; live nodes understand: n1 1, n2 2",
			Remedy: "upgrade n1, then run `sagalog namespace upgrade`"}},
		"this build": {2, 1, nil, doctor.Finding{Status: doctor.StatusFail,
			What:   "the namespace has level 2, and this build understands 1",
			Remedy: "run a newer version of sagalog: a node of this one owns no partition"}},
	} {
		c.want.Check = checkLevel
		require.Equal(t, c.want, levelFinding(c.level, c.build, c.nodes), name)
	}
}

func TestDoctorReadsTheLevelAndTheLiveNodes(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_BROKERS=" + broker.Addr(), "SAGALOG_NODE=n1", "SAGALOG_HTTP=" + freePort(t)}}
	n := at.start(t, "serve")
	n.eventually("ready", func() bool {
		return get(t, n.endpoints(filepath.Join(at.dir, "sagalog-data")).HTTP+"/readyz", nil) == http.StatusOK
	})
	require.Equal(t, "the namespace has level 1, and this build understands 1; live nodes understand: n1 1",
		examined(t, at.run(t, "doctor", "-o", "jsonl"))[checkLevel][doctor.StatusOK][0].What)

	require.Equal(t, 0, n.stop())
	cluster, err := kafka.Connect(broker.ClusterConfig())
	require.NoError(t, err)
	defer cluster.Close()
	producer, err := kafka.NewProducer(cluster)
	require.NoError(t, err)
	defer producer.Close()
	r, err := scheduler.EncodeSettings(events.SettingsChange{Level: 2}, events.Subject{ID: "1", Source: "/test", Time: 1})
	require.NoError(t, err)
	r.Topic = kafka.Topics{Namespace: "sagalog"}.Definitions()
	_, err = producer.ProduceSync(t.Context(), r)
	require.NoError(t, err)
	p := at.run(t, "doctor", "-o", "jsonl")
	require.Equal(t, 1, p.code())
	require.Equal(t, "the namespace has level 2, and this build understands 1", examined(t, p)[checkLevel][doctor.StatusFail][0].What, "the node has said goodbye")
}
