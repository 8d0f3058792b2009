package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// rig runs nodes of `sagalog serve` on a broker that can be stopped and changed independently: the embedded one in a
// separate process, or a real Kafka.
type rig struct {
	t     *testing.T
	work  string
	files string
	fleet *fleet
	// broker is nil on a real Kafka.
	broker *broker
	addr   string
	nodes  []*engine
}

func newRig(t *testing.T, args ...string) *rig {
	t.Helper()
	r := newRigOn(t, "", args...)
	r.broker = newBroker(t, r.work)
	r.addr = r.broker.addr
	r.broker.launch()
	r.broker.ready()
	return r
}

// newRigOn prepares nodes for brokers that are already running. args are the services' faults.
func newRigOn(t *testing.T, addr string, args ...string) *rig {
	t.Helper()
	r := &rig{t: t, work: workDir(t), addr: addr}
	r.fleet = startFleet(t, r.work, args...)
	r.files = filepath.Join(r.work, "files")
	code, _, errs := output(t, program("dronedelivery"), "files", r.files)
	require.Zero(t, code, errs)
	return r
}

// node prepares a node with its agents. Its name, data and port stay the same over restarts.
func (r *rig) node(name string, args ...string) *engine {
	r.t.Helper()
	work := filepath.Join(r.work, name)
	require.NoError(r.t, os.MkdirAll(work, 0o700))
	e := &engine{t: r.t, work: work, data: filepath.Join(work, "data"), env: r.fleet.env()}
	e.args = append([]string{"serve", "--brokers", r.addr, "--namespace", topics.Namespace, "--node", name, "--partitions", "4",
		"--http", freePort(r.t), "--start-within", patience.String(), "--agents", filepath.Join(r.files, "agents"), "--workflows", r.files}, args...)
	r.nodes = append(r.nodes, e)
	return e
}

// restartBroker is a clean stop and a start of the embedded broker.
func (r *rig) restartBroker() {
	r.t.Helper()
	r.broker.end()
	r.broker.launch()
	r.broker.ready()
}

// admin is a client for operations that the engine itself never does to its topics.
func (r *rig) admin() *kadm.Client {
	r.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(r.addr, ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(r.t, err)
	r.t.Cleanup(c.Close)
	return kadm.NewClient(c)
}

func (r *rig) conn() *kafka.Cluster {
	r.t.Helper()
	c, err := kafka.Connect(kafka.ClusterConfig{Brokers: strings.Split(r.addr, ","), ClientID: "e2e", Embedded: r.broker != nil})
	require.NoError(r.t, err)
	r.t.Cleanup(c.Close)
	return c
}

// patiently returns a context for one operation on the brokers.
func (r *rig) patiently() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

// trim deletes all but the last `keep` records of each partition of a topic, and returns the end offsets.
func (r *rig) trim(topic string, keep int64) map[int32]int64 {
	r.t.Helper()
	adm, ctx := r.admin(), r.patiently()
	ends, err := adm.ListEndOffsets(ctx, topic)
	require.NoError(r.t, err)
	to, at := kadm.Offsets{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		require.NoError(r.t, o.Err)
		at[o.Partition] = o.Offset
		if o.Offset > keep {
			to.AddOffset(topic, o.Partition, o.Offset-keep, -1)
		}
	})
	require.NotEmpty(r.t, to, "there is nothing to delete")
	res, err := adm.DeleteRecords(ctx, to)
	require.NoError(r.t, err)
	require.NoError(r.t, res.Error())
	return at
}

// recreate deletes a topic and creates it again with the same settings and the given number of partitions.
func (r *rig) recreate(topic string, partitions int32) {
	r.t.Helper()
	adm, ctx := r.admin(), r.patiently()
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	require.NoError(r.t, err)
	set := map[string]*string{}
	for _, c := range configs[0].Configs {
		if c.Source == 1 { // set for this topic, not a default
			set[c.Key] = c.Value
		}
	}
	gone, err := adm.DeleteTopics(ctx, topic)
	require.NoError(r.t, err)
	require.NoError(r.t, gone.Error())
	eventually(r.t, patience, topic+" exists again", func() bool {
		made, err := adm.CreateTopics(ctx, partitions, 1, set, topic)
		return err == nil && made[topic].Err == nil
	})
	eventually(r.t, patience, "the broker knows of "+topic, func() bool { // it learns of the new topic after the controller
		made, err := adm.ListTopics(ctx, topic)
		return err == nil && made[topic].Err == nil && len(made[topic].Partitions) == int(partitions)
	})
}

// refused starts a node that must end by itself with exit code 1, and returns its last log lines.
func (e *engine) refused() string {
	e.t.Helper()
	begun := time.Now()
	p := start(e.t, command{name: "refused", dir: e.work, program: program("sagalog"), args: append(e.args, "--data", e.data), env: e.env})
	require.Equal(e.t, 1, p.wait(patience), p.stderr())
	said := tail(p.err, 1)
	e.t.Logf("refused after %s: %s", time.Since(begun).Round(time.Millisecond), said)
	return said
}

// says waits until the log of the running process has a line with all these texts, and returns that line.
func (e *engine) says(texts ...string) (line string) {
	e.t.Helper()
	begun := time.Now()
	eventually(e.t, patience, "the engine logs "+strings.Join(texts, ", "), func() bool {
		b, err := os.ReadFile(e.err)
		require.NoError(e.t, err)
	lines:
		for l := range bytes.Lines(b) {
			for _, text := range texts {
				if !bytes.Contains(l, []byte(text)) {
					continue lines
				}
			}
			line = strings.TrimSpace(string(l))
			return true
		}
		return false
	})
	e.t.Logf("after %s it logs: %s", time.Since(begun).Round(time.Millisecond), line)
	return line
}

// unready waits until the node reports that it is not ready, and returns the reason.
func (e *engine) unready() (why string) {
	e.t.Helper()
	eventually(e.t, patience, "the engine is not ready", func() bool {
		status, b, err := e.try("GET", "/readyz", nil)
		why = string(b)
		return err == nil && status != 200
	})
	return why
}

// sameState stops a node and requires that its state is the fold of the log.
func (r *rig) sameState(e *engine) {
	r.t.Helper()
	if e.running() {
		e.stop()
	}
	rows := stateHash(r.t, e.data, "--rebuild", "--brokers", r.addr)
	for _, row := range rows {
		require.Equal(r.t, row.Hash, row.Rebuilt, "partition %d", row.Partition)
	}
	r.t.Logf("the state of %d partitions is the fold of the log", len(rows))
}

func (p *process) freeze() { p.send(syscall.SIGSTOP) }
func (p *process) thaw()   { p.send(syscall.SIGCONT) }

func (p *process) send(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// launchOrRefused starts the node after a fault. Either the start must be refused, or the node must report a stopped
// partition.
func (e *engine) launchOrRefused() {
	e.t.Helper()
	e.process = start(e.t, command{name: "again", dir: e.work, program: program("sagalog"), args: append(e.args, "--data", e.data), env: e.env})
	eventually(e.t, patience, "the next start refuses, or a partition stops", func() bool {
		return !e.running() || strings.Contains(e.stderr(), "the partition stopped")
	})
	if e.running() {
		e.says("the partition stopped")
		e.stop()
		return
	}
	require.Equal(e.t, 1, e.cmd.ProcessState.ExitCode())
	e.t.Logf("the next start is refused: %s", tail(e.err, 1))
}
