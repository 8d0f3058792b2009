package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// cluster is some nodes on a real Apache Kafka, and the services that their agents call.
type cluster struct {
	t    *testing.T
	work string
	// brokers says how to reach Kafka. kafka is its process, or nil if the test did not start it.
	brokers string
	kafka   *kafkatest.Real
	fleet   *fleet
	// files is the directory with the workflow and, in agents/, the bindings.
	files string
	conn  *kafka.Cluster
	log   *watcher
	nodes []*member
}

// newCluster starts Kafka and the services. args are the rates at which the services fail. Cluster tests do not run in
// parallel, because each starts separate brokers.
func newCluster(t *testing.T, o kafkatest.Options, args ...string) *cluster {
	t.Helper()
	k := kafkatest.Up(t, o)
	c := clusterOn(t, workDir(t), k.Brokers(), args...)
	c.kafka = k
	return c
}

// clusterOn makes a cluster on brokers that are already running. All its files are in the directory work.
func clusterOn(t *testing.T, work string, brokers []string, args ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, brokers: strings.Join(brokers, ","), work: work}
	c.fleet = startFleet(t, c.work, args...)
	c.files = filepath.Join(c.work, "files")
	if _, err := os.Stat(c.files); err != nil {
		code, _, errs := output(t, program("dronedelivery"), "files", c.files)
		require.Zero(t, code, errs)
		patientDrone(t, filepath.Join(c.files, "workflow.yaml"))
	}
	var err error
	c.conn, err = kafka.Connect(kafka.ClusterConfig{Brokers: brokers, ClientID: "e2e"})
	require.NoError(t, err)
	t.Cleanup(c.conn.Close)
	c.log = &watcher{conn: c.conn, tasks: map[string]string{}}
	t.Cleanup(func() {
		if !t.Failed() && !*keepFlag {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		path := filepath.Join(c.work, "events.jsonl")
		t.Logf("the log of events: %s %v", path, c.log.dump(ctx, path))
	})
	return c
}

// patientDrone gives the drone's calls so long that they survive the death of an agent and the session that ends after it.
func patientDrone(t *testing.T, workflow string) {
	t.Helper()
	b, err := os.ReadFile(workflow)
	require.NoError(t, err)
	const step = "    agent: drone\n"
	require.Equal(t, 1, bytes.Count(b, []byte(step)))
	require.NoError(t, os.WriteFile(workflow, bytes.Replace(b, []byte(step), []byte(step+"    complete_within: 30s\n"), 1), 0o600))
}

// member is a `sagalog serve` process.
type member struct {
	*engine
	c       *cluster
	name    string
	roles   []string
	program string
}

// dumpWait is how long a node may take to write its goroutines.
const dumpWait = 10 * time.Second

var allRoles = []string{"owner", "agent", "api", "projector"}

// node prepares a process with the given roles, or with all roles if none is given. Its name, data and port stay the
// same over restarts.
func (c *cluster) node(name string, roles ...string) *member {
	c.t.Helper()
	if len(roles) == 0 {
		roles = allRoles
	}
	work := filepath.Join(c.work, name)
	require.NoError(c.t, os.MkdirAll(work, 0o700))
	m := &member{c: c, name: name, roles: roles, program: program("sagalog")}
	m.engine = &engine{t: c.t, work: work, data: filepath.Join(work, "data"), env: c.fleet.env()}
	m.args = []string{"serve", "--brokers", c.brokers, "--namespace", topics.Namespace, "--node", name,
		"--roles", strings.Join(roles, ","), "--http", freePort(c.t), "--start-within", patience.String()}
	if m.has("agent") {
		m.args = append(m.args, "--agents", filepath.Join(c.files, "agents"))
	}
	if m.keepsData() {
		m.args = append(m.args, "--workflows", c.files, "--data", m.data)
	}
	c.nodes = append(c.nodes, m)
	return m
}

// up prepares and starts a node, and returns when it is ready.
func (c *cluster) up(name string, roles ...string) *member {
	c.t.Helper()
	m := c.node(name, roles...)
	took := m.start()
	c.t.Logf("node %s is ready %s after its start", name, took.Round(time.Millisecond))
	return m
}

func (m *member) has(role string) bool { return slices.Contains(m.roles, role) }

// keepsData says whether the process has any role other than agents.
func (m *member) keepsData() bool { return !slices.Equal(m.roles, []string{"agent"}) }

// launch starts the process and returns when it has printed its address. A process with only agents
// prints none.
func (m *member) launch() {
	m.t.Helper()
	if err := os.Remove(filepath.Join(m.data, "endpoints.json")); err != nil {
		require.ErrorIs(m.t, err, os.ErrNotExist)
	}
	m.process = start(m.t, command{name: m.name, dir: m.work, program: m.program, args: m.args, env: m.env})
	p := m.process
	m.t.Cleanup(func() {
		if m.t.Failed() && p.running() { // its goroutines show where it hangs
			m.t.Logf("the last of %s before its goroutines:\n%s", p.err, tail(p.err, 40))
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			_ = p.cmd.Process.Signal(syscall.SIGQUIT)
			select {
			case <-p.ended:
			case <-time.After(dumpWait):
			}
		}
	})
	if m.keepsData() {
		m.endpoints = awaitEndpoints(m.t, m.process, m.data)
	}
}

// start launches the process and returns when the node is ready. A process with only agents is
// ready when a node has read its heartbeats.
func (m *member) start() time.Duration {
	m.t.Helper()
	begun := time.Now()
	m.launch()
	if m.has("api") {
		m.ready()
	} else if m.has("agent") {
		m.c.heard(m.name)
	}
	return time.Since(begun)
}

// pause is SIGSTOP, resume SIGCONT.
func (m *member) pause()  { m.signal(syscall.SIGSTOP) }
func (m *member) resume() { m.signal(syscall.SIGCONT) }

func (m *member) signal(s os.Signal) {
	m.t.Helper()
	require.NoError(m.t, m.cmd.Process.Signal(s))
}

// leave stops the process cleanly and requires a successful exit.
func (m *member) leave() {
	m.t.Helper()
	begun := time.Now()
	m.signal(syscall.SIGTERM)
	code := m.wait(patience)
	require.Zero(m.t, code, tail(m.err, 20))
	m.t.Logf("node %s has left in %s", m.name, time.Since(begun).Round(time.Millisecond))
}

// alive returns the running nodes with a role.
func (c *cluster) alive(role string) []*member {
	var list []*member
	for _, m := range c.nodes {
		if m.process != nil && m.running() && m.has(role) {
			list = append(list, m)
		}
	}
	return list
}

// urls are the APIs of some nodes, for a client that knows all of them.
func urls(nodes []*member) string {
	var list []string
	for _, m := range nodes {
		list = append(list, m.HTTP)
	}
	return strings.Join(list, ",")
}

// instance is a line of GET /v1/agents.
type instance struct {
	Agent      string    `json:"agent"`
	Instance   string    `json:"instance"`
	InFlight   int       `json:"in_flight"`
	Partitions []int32   `json:"partitions"`
	LastSeen   time.Time `json:"last_seen"`
}

func (m *member) agents() []instance {
	status, b, err := m.try("GET", "/v1/agents", nil)
	var list struct{ Agents []instance }
	if err != nil || status != 200 || json.Unmarshal(b, &list) != nil {
		return nil
	}
	return list.Agents
}

// heard waits until a node has read a heartbeat of an instance and the instance has partitions to
// work on.
func (c *cluster) heard(name string) {
	c.t.Helper()
	eventually(c.t, patience, "the agents of "+name+" send heartbeats", func() bool {
		for _, m := range c.alive("api") {
			for _, i := range m.agents() {
				if i.Instance == name && len(i.Partitions) > 0 {
					return true
				}
			}
		}
		return false
	})
}

// owned is a line of GET /v1/partitions.
type owned struct {
	Partition int32  `json:"partition"`
	Owner     string `json:"owner"`
}

// owners asks a node for the owner of each partition. It is nil if the node does not answer.
func (m *member) owners() map[int32]string {
	status, b, err := m.try("GET", "/v1/partitions", nil)
	var list []owned
	if err != nil || status != 200 || json.Unmarshal(b, &list) != nil {
		return nil
	}
	of := map[int32]string{}
	for _, p := range list {
		of[p.Partition] = p.Owner
	}
	return of
}

// even waits until the shares of the living owners differ by at most one partition, by the answer of any node and
// by the log.
func (c *cluster) even(bound time.Duration) {
	c.t.Helper()
	begun := time.Now()
	var last string
	agrees := func(of map[int32]string) bool {
		last = fmt.Sprint(of)
		share := map[string]int{}
		for _, m := range c.alive("owner") {
			share[m.name] = 0
		}
		least, most := len(of)/len(share), (len(of)+len(share)-1)/len(share)
		for _, owner := range of {
			if _, living := share[owner]; !living {
				return false
			}
			share[owner]++
		}
		for _, n := range share {
			if n < least || n > most {
				return false
			}
		}
		return len(of) > 0
	}
	eventually(c.t, bound, "the partitions are shared evenly", func() bool {
		if c.log.look(c.t.Context()) != nil || !agrees(c.log.owners()) {
			return false
		}
		for _, m := range c.alive("api") {
			if !agrees(m.owners()) {
				return false
			}
		}
		return true
	})
	c.t.Logf("%d owners have equal shares after %s: %s", len(c.alive("owner")), time.Since(begun).Round(time.Millisecond), last)
}

// stalled is the longest time in which no delivery may end while some are open. It exceeds the drone step's complete-by
// time plus a retry plus a take-over.
const stalled = patience

// ended waits until the log holds the end of each delivery of a load.
func (c *cluster) ended(l *load) {
	c.t.Helper()
	begun, ends, last := time.Now(), 0, time.Now()
	for ends < l.count {
		if err := c.log.look(c.t.Context()); err == nil {
			if n := c.log.endedWith(l.prefix); n > ends {
				ends, last = n, time.Now()
			}
		}
		for _, m := range c.nodes {
			if m.process != nil && !m.running() && m.cmd.ProcessState.ExitCode() > 0 {
				require.FailNow(c.t, m.name+" has ended", "%s", tail(m.err, 20))
			}
		}
		if time.Since(last) > stalled {
			require.FailNow(c.t, fmt.Sprintf("%d of %d deliveries have ended, and no further one for %s", ends, l.count, stalled), "%v", c.log.open(l))
		}
		after(c.t, look)
	}
	c.t.Logf("each of %d deliveries has ended, %s after all were acknowledged", l.count, time.Since(begun).Round(time.Millisecond))
}

// hashes stops the nodes and requires that the state of each is the fold of the log.
func (c *cluster) hashes() {
	c.t.Helper()
	for _, m := range c.alive("owner") {
		m.leave()
	}
	for _, m := range c.nodes {
		if m.process != nil && m.running() {
			m.leave()
		}
	}
	stores, compared, facts := 0, 0, 0
	for _, m := range c.nodes {
		if m.process == nil || !m.has("owner") && !m.has("projector") {
			continue
		}
		stores++
		for _, r := range stateHash(c.t, m.data, "--rebuild", "--brokers", c.brokers) {
			require.Equal(c.t, r.Hash, r.Rebuilt, "node %s, partition %d", m.name, r.Partition)
			alone := fold(c.t, c.conn, r.Partition, r.Offset)
			require.Equal(c.t, r.Hash, alone.hash.String(), "node %s, partition %d", m.name, r.Partition)
			compared, facts = compared+1, facts+alone.facts
		}
	}
	c.t.Logf("state hashes: %d partitions of %d nodes are the fold of the log (%d facts)", compared, stores, facts)
}
