package e2e

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// The flags of the kill driver; .ci/kills sets them.
var (
	killNumberFlag = flag.Int("kills.n", 0, "how many processes TestKills or TestClusterKillsAwaited kills (0: the test is skipped, or 20)")
	killSeedFlag   = flag.Uint64("kills.seed", 1, "which of them, and when")
	killDirFlag    = flag.String("kills.dir", "", "go on with the system whose data are here, and keep it (default: a new one, which is removed)")
	killRateFlag   = flag.Float64("kills.rate", 0, "submissions a second (0: 30 on the embedded broker, 20 on Kafka)")
)

const (
	// pointWithin is how long a process may take to come to the point at which it is to die; then it is killed where it is.
	pointWithin = 8 * time.Second
	// recoverWithin bounds a recovery. It is no figure of the engine: a session of a group's member is 10 s, and the machine is
	// small and shared.
	recoverWithin = patience / 2
	// startWithin is how long a start may take in which a node still ends when the broker does not answer.
	startWithin = 20 * time.Second
	// hangs is high, so that a Timeout is decided every second or so.
	hangs = "package=0.06"
)

// TestKills kills owners, agents and the embedded broker, each a process of its own, at random moments and at the named
// points of the crash table, one after another as fast as they recover, while deliveries are submitted in all ways. Then
// every delivery has ended, and log, ledgers, stores and the list of what was acknowledged agree.
func TestKills(t *testing.T) {
	if *killNumberFlag == 0 {
		t.Skip("kills processes for minutes: .ci/kills --kills 180 --seed 1 [--dir DIR], or go test ./internal/e2e -v -run '^TestKills$' -kills.n 180")
	}
	k := newTrial(t)
	b := newBroker(t, k.dir)
	b.launch()
	b.ready()
	k.broker = b
	k.on(clusterOn(t, k.dir, []string{b.addr}, "--refuse", "drone=0.1", "--hang", hangs))
	k.begin(30)
	for k.killed < *killNumberFlag {
		k.act(k.deal())
	}
	list := k.finish()
	k.check(list)
	k.end(list)
	b.end()
	k.covered()
}

// dealtOnce is how many kills it takes in one run until all acts were dealt.
const dealtOnce = 100

// covered requires that a process died at each point, where there were enough kills: a driver that never came there would
// have shown nothing.
func (k *trial) covered() {
	k.t.Helper()
	if k.killed < dealtOnce {
		return
	}
	for act := range acts {
		require.Positive(k.t, k.sums.Kinds[act], act)
	}
	for point, p := range k.sums.Points {
		require.Positive(k.t, p.Died, "no process died at %s", point)
	}
}

// trial is a system under kills.
type trial struct {
	*cluster
	t    *testing.T
	dir  string
	r    *rand.Rand
	sums *sums
	// killed counts the kills of this slice.
	killed int
	began  time.Time
	deck   []string

	broker *broker
	owners []*member
	agents []*crew
	desk   *desk
	// falls are those from which the system has not recovered.
	falls []*fall
	// outages are when there was no broker, booted when a node was last started.
	outages []outage
	booted  map[string]time.Time
}

type outage struct{ from, to time.Time }

// crew is a process of agents, and the gate through which it reaches the services.
type crew struct {
	*member
	gate *gate
}

// newTrial prepares a slice: it goes on where the last one in the directory ended.
func newTrial(t *testing.T) *trial {
	t.Helper()
	k := &trial{t: t, dir: *killDirFlag, began: time.Now(), booted: map[string]time.Time{}}
	if k.dir == "" {
		k.dir = workDir(t)
	}
	require.NoError(t, os.MkdirAll(k.dir, 0o700))
	k.sums = readSums(t, k.dir, *killSeedFlag)
	t.Logf("slice %d: %d kills by seed %d in %s", k.sums.Slices+1, *killNumberFlag, *killSeedFlag, k.dir)
	k.r = rand.New(rand.NewPCG(*killSeedFlag, uint64(k.sums.Kills)))
	return k
}

// on starts two owners and two processes of agents; the owners' program dies where it is told to.
func (k *trial) on(c *cluster) {
	k.t.Helper()
	k.cluster = c
	for _, name := range []string{"n1", "n2"} {
		m := c.node(name, "owner", "api", "projector")
		m.program = hooked(k.t)
		require.NoError(k.t, removed(m.doom()))
		require.NoError(k.t, removed(m.hold()))
		m.env = append(m.env, "SAGALOG_TEST_KILL_AT=@"+m.doom())
		if k.broker != nil {
			m.env = append(m.env, "SAGALOG_TEST_HOLD_APPENDS="+m.hold())
		}
		k.owners = append(k.owners, m)
		k.t.Logf("node %s is ready %s after its start", name, m.start().Round(time.Millisecond))
	}
	for _, name := range []string{"a1", "a2"} {
		a := &crew{member: c.node(name, "agent"), gate: newGate(k.t, c.fleet)}
		a.env = a.gate.env()
		k.agents = append(k.agents, a)
		a.start()
	}
}

// doom names the file by which the process learns at which point it is to die, hold the one that holds its appends back.
func (m *member) doom() string { return filepath.Join(m.work, "kill-at") }
func (m *member) hold() string { return filepath.Join(m.work, "hold") }

func removed(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// begin begins to submit, at a rate that the flag may change.
func (k *trial) begin(rate float64) {
	k.t.Helper()
	k.even(patience)
	k.desk = openDesk(k.t, filepath.Join(k.dir, "submissions.jsonl"))
	k.desk.conn, k.desk.rate, k.desk.partitions = newClient(k.t, k.conn), rate, int32(len(k.log.parts))
	if *killRateFlag > 0 {
		k.desk.rate = *killRateFlag
	}
	k.desk.r = rand.New(rand.NewPCG(*killSeedFlag, uint64(k.desk.next)))
	for _, m := range k.owners {
		k.desk.urls = append(k.desk.urls, m.HTTP)
	}
	k.desk.done.Go(k.desk.run)
}

// finish lets everything recover, and returns the list of what was acknowledged.
func (k *trial) finish() []sent {
	k.t.Helper()
	k.recover()
	for _, m := range k.owners {
		m.ready()
	}
	took := time.Since(k.began)
	list := k.desk.end()
	k.t.Logf("%d kills in %s, %.2f s each; %d submissions acknowledged so far, %d sent again in this slice", k.killed, took.Round(time.Second),
		took.Seconds()/float64(k.killed), len(list), k.desk.again)
	return list
}

// end stops the nodes, compares their stores with the log, and writes the sums.
func (k *trial) end(list []sent) {
	k.t.Helper()
	k.hashes()
	k.verified(list)
	k.sums.Slices++
	k.sums.Seconds += time.Since(k.began).Seconds()
	k.sums.write(k.t, k.dir)
	k.t.Logf("%s", k.sums)
}

// living requires that no process has ended by itself, but at its start, where it found no broker: it is started again, as
// an operator's supervisor of processes would do.
func (k *trial) living() {
	k.t.Helper()
	for _, m := range k.nodes {
		if m.process == nil || m.running() || m.cmd.ProcessState.ExitCode() < 0 {
			continue
		}
		alone := slices.ContainsFunc(k.outages, func(o outage) bool {
			return k.booted[m.name].Before(o.to) && k.booted[m.name].Add(startWithin).After(o.from)
		})
		require.True(k.t, alone, "%s has ended with %d:\n%s", m.name, m.cmd.ProcessState.ExitCode(), tail(m.err, 20))
		k.sums.Refused++
		k.boot(m)
	}
}

// deal draws an act. All are dealt before one comes again, so that no run misses any.
func (k *trial) deal() string {
	if len(k.deck) == 0 {
		for act, n := range acts {
			for range n {
				k.deck = append(k.deck, act)
			}
		}
		slices.Sort(k.deck)
		k.r.Shuffle(len(k.deck), func(i, j int) { k.deck[i], k.deck[j] = k.deck[j], k.deck[i] })
	}
	last := len(k.deck) - 1
	act := k.deck[last]
	k.deck = k.deck[:last]
	return act
}

// A run of the driver against Apache Kafka. Each kill of an owner waits until the other has taken over.
func TestClusterKillsAwaited(t *testing.T) {
	if *killNumberFlag == 0 {
		*killNumberFlag = 20
	}
	k := newTrial(t)
	three := kafkatest.Up(t, kafkatest.Options{Brokers: 3, Dir: filepath.Join(k.dir, "kafka")})
	k.on(clusterOn(t, k.dir, three.Brokers(), "--refuse", "drone=0.1", "--hang", hangs))
	k.kafka = three
	k.begin(20)
	w := &awaited{trial: k}
	for len(w.deaths) < *killNumberFlag {
		w.takeover()
		if len(w.deaths)%outageEvery == 0 {
			w.outage()
		}
	}
	list := k.finish()
	w.measured(k.check(list))
	k.end(list)
}
