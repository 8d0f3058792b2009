package e2e

import (
	"cmp"
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
	killNumberFlag = flag.Int("kills.n", 0, "how many processes TestKills or TestClusterKillsAwaited kills (0: the test is skipped, or 12)")
	killSeedFlag   = flag.Uint64("kills.seed", 1, "the seed that decides which processes die, and when")
	killDirFlag    = flag.String("kills.dir", "", "continue the system in this directory, and keep it (default: a new one, which is removed)")
	killRateFlag   = flag.Float64("kills.rate", 0, "submissions a second (0: 30 on the embedded broker, 20 on Kafka)")
)

const (
	// pointWithin is how long a process may take to reach the point at which it should die. After that it is killed
	// wherever it happens to be.
	pointWithin = 8 * time.Second
	// recoverWithin bounds a recovery. It says nothing about the engine's speed: a group member's session is 10 s, and the
	// machine is small and shared.
	recoverWithin = patience
	// startWithin bounds a start. During a start, a node may still end if the broker does not answer.
	startWithin = patience
	// hangs is high, so that a Timeout is decided about every second.
	hangs = "package=0.06"
)

// TestKills kills owners, agents and the embedded broker, each in a separate process, at random moments and at the
// named points of the crash table. The next kill comes as soon as the system has recovered, while deliveries are
// submitted in all ways. In the end every delivery has ended, and log, ledgers, stores and the list of acknowledged
// submissions agree.
func TestKills(t *testing.T) {
	if *killNumberFlag == 0 {
		t.Skip("kills processes for minutes: .ci/kills --kills 180 --seed 1 [--dir DIR], or go test ./internal/e2e -v -run '^TestKills$' -kills.n 180")
	}
	k := newTrial(t, *killNumberFlag)
	b := newBroker(t, k.dir)
	b.launch()
	b.ready()
	k.broker = b
	// An agent that dies may carry out a do again after its undo (package agent, "Many instances"): the services remember their keys.
	k.on(clusterOn(t, k.dir, []string{b.addr}, "--unkind", "--keep-keys", "--refuse", "drone=0.1", "--hang", hangs))
	k.begin(30)
	for k.killed < k.wanted {
		k.act(k.deal())
	}
	list := k.finish()
	k.check(list)
	k.end(list)
	b.end()
	k.covered()
}

// dealtOnce is how many kills a run needs before every act has been dealt.
const dealtOnce = 100

// covered requires, if there were enough kills, that a process died at each point: a driver that never reached a point
// has shown nothing about it.
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
	// wanted is how many processes this slice kills, and killed how many it has killed.
	wanted, killed int
	began          time.Time
	deck           []string

	broker *broker
	owners []*member
	agents []*crew
	desk   *desk
	// falls are the falls from which the system has not recovered yet.
	falls []*fall
	// outages are the times without a broker, and booted is when each node was last started.
	outages []outage
	booted  map[string]time.Time
}

type outage struct{ from, to time.Time }

// crew is a process of agents, with the gate through which it reaches the services.
type crew struct {
	*member
	gate *gate
}

// newTrial prepares a slice of kills. It continues where the previous slice in the directory ended.
func newTrial(t *testing.T, kills int) *trial {
	t.Helper()
	k := &trial{t: t, wanted: kills, dir: *killDirFlag, began: time.Now(), booted: map[string]time.Time{}}
	if k.dir == "" {
		k.dir = workDir(t)
	}
	require.NoError(t, os.MkdirAll(k.dir, 0o700))
	k.sums = readSums(t, k.dir, *killSeedFlag)
	t.Logf("slice %d: %d kills by seed %d in %s", k.sums.Slices+1, kills, *killSeedFlag, k.dir)
	k.r = rand.New(rand.NewPCG(*killSeedFlag, uint64(k.sums.Kills)))
	return k
}

// on starts two owners and two processes of agents. The owners' program can be made to die at a chosen point.
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

// doom names the file that tells the process where to die, and hold the file that holds back its appends.
func (m *member) doom() string { return filepath.Join(m.work, "kill-at") }
func (m *member) hold() string { return filepath.Join(m.work, "hold") }

func removed(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// begin starts to submit, at a rate that the flag can change.
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

// finish lets everything recover, and returns the list of acknowledged submissions.
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

// living requires that no process has ended on its own, except at a start without a broker. Such a process is
// restarted, as an operator's process supervisor would do.
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

// deal picks a random act. No act comes twice before all have been dealt, so no long run misses one.
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

// A run of the driver against Apache Kafka. After each kill of an owner it waits until the other has taken over.
func TestClusterKillsAwaited(t *testing.T) {
	besideOthers(t)
	k := newTrial(t, cmp.Or(*killNumberFlag, 12)) // each of pointsAwaited once, and each kind of outage with and without a death
	three := kafkatest.Up(t, kafkatest.Options{Brokers: 3, Dir: filepath.Join(k.dir, "kafka")})
	k.on(clusterOn(t, k.dir, three.Brokers(), "--refuse", "drone=0.1", "--hang", hangs))
	k.kafka = three
	k.begin(20)
	w := &awaited{trial: k}
	for len(w.deaths) < k.wanted {
		w.takeover()
		if len(w.deaths)%outageEvery == 0 {
			w.outage()
		}
	}
	list := k.finish()
	w.measured(k.check(list))
	k.end(list)
}
