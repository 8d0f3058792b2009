package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// takeoverWithin is the README's promise. Without eviction the group would notice a dead member only after a session of
// 10 s. The tests of internal/node show in virtual time that a take-over is faster than that.
const takeoverWithin = 4 * time.Second

// replicated configures three brokers as in production. Topics that brokers create themselves have three copies too.
func replicated(set map[string]string) kafkatest.Options {
	return kafkatest.Options{Brokers: 3, Set: set}
}

// Two nodes process deliveries on a real Kafka, with refusals and hangs. All ledgers are then compared
// with the log.
func TestClusterEveryDelivery(t *testing.T) {
	besideOthers(t)
	t.Run("one broker", func(t *testing.T) { everyDelivery(t, kafkatest.Options{}) })
	if full {
		t.Run("three brokers", func(t *testing.T) { everyDelivery(t, replicated(nil)) })
	}
}

func everyDelivery(t *testing.T, o kafkatest.Options) {
	c := newCluster(t, o, "--refuse", "drone=0.1", "--hang", hangRate())
	one, two := c.up("n1"), c.up("n2")
	c.even(patience)
	begun := time.Now()
	l := c.burst("d-", sized(*deliveriesFlag, 1000, 10_000), one, two)
	l.acknowledged(t, 10*patience)
	c.ended(l)
	t.Logf("%d deliveries in %s", l.count, time.Since(begun).Round(time.Millisecond))
	f := c.agree(l)
	require.Positive(t, f.Ends["undone"])
	require.Positive(t, f.Ledgers["drone"].Refused)
	require.Positive(t, f.Ledgers["package"].Hung)
	require.Len(t, f.Ownership.Owners, 2, "both nodes owned partitions")
	c.lies(l, sized(0, 4, 20))
	c.hashes()
}

// While deliveries arrive at a steady rate, one of two nodes is killed by kill -9 again and again, and half of the time
// it stays dead for a while. The broker has its default settings. No delivery is lost or accepted twice, every delivery
// ends, and another node writes its first fact within four seconds of the dead node's last one.
func TestClusterKills(t *testing.T) {
	besideOthers(t)
	r := rand.New(rand.NewPCG(seed(t), 42))
	defaults := map[string]string{"group.initial.rebalance.delay.ms": "3000"}
	c := newCluster(t, kafkatest.Options{Set: defaults}, "--refuse", "drone=0.1", "--hang", hangRate())
	nodes := []*member{c.up("n1"), c.up("n2")}
	c.even(patience)
	span := time.Duration(sized(*minutesFlag, 0.5, 2.2) * float64(time.Minute))
	kills := sized(*killsFlag, 4, 12)
	rate := sized(*rateFlag, 20, 10_000/span.Seconds())
	dead := time.Duration(sized(*deadFlag, 6, 15) * float64(time.Second))

	begun := time.Now()
	s := c.stream("k-", rate, nodes...)
	// The pauses before the kills share the time that is left after subtracting the dead times.
	mean := max(span-time.Duration(kills)*dead/2, span/4) / time.Duration(kills+1)
	var deaths []death
	for len(deaths) < kills || time.Since(begun) < span {
		after(t, time.Duration((0.3+1.4*r.Float64())*float64(mean)))
		m := nodes[r.IntN(2)]
		deaths = append(deaths, death{m.name, time.Now()})
		m.kill()
		if len(deaths)%2 == 0 {
			after(t, dead)
		}
		m.launch()
	}
	l := s.end()
	t.Logf("%d kills in %s, every other one left dead for %s", len(deaths), time.Since(begun).Round(time.Second), dead)
	c.ended(l)
	f := c.agree(l)
	longest := report(c, f.takeovers(deaths))
	promised(t, "the longest take-over", longest, takeoverWithin)
	c.lies(l, 4)
	for _, m := range nodes {
		m.ready()
	}
	c.hashes()
}

// Three brokers hold three copies of everything. Brokers die and come back, leaders move, and all three brokers are
// restarted one after another while deliveries run.
func TestClusterBrokers(t *testing.T) {
	besideOthers(t)
	r := rand.New(rand.NewPCG(seed(t), 43))
	// With the default of 9 s, the others notice a dead broker so late that its partitions stand still for too long.
	// With a shorter timeout than this one, they would think that a live broker on a busy machine is dead.
	c := newCluster(t, replicated(map[string]string{"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}), "--refuse", "drone=0.1", "--hang", hangRate())
	nodes := []*member{c.up("n1"), c.up("n2")}
	c.even(patience)
	s := c.stream("b-", sized(*rateFlag, 15, 40), nodes...)
	outages := sized(*outagesFlag, 1, 6)
	for i := range outages {
		after(t, time.Duration((1+2*r.Float64())*float64(time.Second)))
		n := 1 + r.IntN(3)
		begun := time.Now()
		c.kafka.Kill(n)
		after(t, time.Duration((1+7*r.Float64())*float64(time.Second)))
		c.kafka.Start(n)
		c.kafka.AwaitInSync()
		t.Logf("outage %d: broker %d was killed, and is in sync again after %s", i+1, n, time.Since(begun).Round(time.Millisecond))
	}
	for n := 1; n <= 3; n++ {
		begun := time.Now()
		c.kafka.Stop(n)
		c.kafka.Start(n)
		c.kafka.AwaitInSync()
		t.Logf("broker %d was restarted, and is in sync again after %s", n, time.Since(begun).Round(time.Millisecond))
	}
	l := s.end()
	c.ended(l)
	f := c.agree(l)
	t.Logf("changes of epoch meanwhile: %s", f.Ownership.Gaps)
	c.lies(l, 4)
	for _, m := range nodes {
		require.True(t, m.running(), "%s has ended:\n%s", m.name, tail(m.err, 20))
		m.ready()
	}
	c.even(patience)
	c.hashes()
}

// id returns the i-th ID of a load.
func (l *load) id(i int) string { return fmt.Sprintf("%s%d", l.prefix, i) }
