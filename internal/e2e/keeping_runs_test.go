package e2e

import (
	"cmp"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// Facts are kept for seconds, and the embedded broker is killed together with the engine again and again. Its disk does not grow, it begins where it
// began before, the ledgers agree, and the state is the fold of what is left. An hour with two minutes of log:
//
//	go test ./internal/e2e -run TestKeepingOnTheEmbeddedBroker -v -count=1 -timeout 2h -e2e.keeping 1h
func TestKeepingOnTheEmbeddedBroker(t *testing.T) {
	if *keepingFlag == 0 {
		skipUnlessSized(t)
	}
	t.Parallel()
	p := paced(20*time.Second, 64<<10)
	work := workDir(t)
	f := startFleet(t, work, "--refuse", "drone=0.1")
	e := newEngineWith(t, work, f, "--partitions", strconv.Itoa(partitions))
	p.prepare(t, e)
	e.start()
	k := &keeping{t: t, conn: e.cluster(), fleet: f, disk: filepath.Join(e.data, "broker"), stores: []string{filepath.Join(e.data, "state")}, api: e, r: rand.New(rand.NewPCG(seed(t), 50))}
	k.kill = func() {
		e.kill()
		e.launch()
	}
	k.settle(p, e.Kafka)
	s := newStream(t, "h-", p.rate, "--api", e.HTTP)
	k.run(s, p)
	l := s.end()
	decided, err := k.offsets(k.conn.EndOffset)
	require.NoError(t, err)
	e.ready()
	e.quiet(4 * patience)
	k.drained(p, decided)
	k.ledgersAgree(s, l, p)
	k.verified(e.Kafka)
	k.kill()
	e.ready()
	begins, err := k.offsets(k.conn.StartOffset)
	require.NoError(t, err)
	k.sees(begins)
	e.stop()
	k.hashes(e.data)
}

// The same on Apache Kafka, with two nodes of which one at a time is killed. Kafka deletes a segment a while after it was asked to, so it is set to
// look often. An hour with two minutes of log, with the programs as they are:
//
//	SAGALOG_TEST_KAFKA=1 go test ./internal/e2e -run TestClusterKeeping -v -count=1 -timeout 2h -e2e.keeping 1h
func TestClusterKeeping(t *testing.T) {
	besideOthers(t)
	p := paced(40*time.Second, kafkaSegment)
	work := workDir(t)
	disk := filepath.Join(work, "kafka")
	brokers := kafkatest.Up(t, kafkatest.Options{Dir: disk, Set: map[string]string{
		"log.retention.check.interval.ms": "5000", "log.segment.delete.delay.ms": "1000", "log.initial.task.delay.ms": "1000",
	}})
	c := clusterOn(t, work, brokers.Brokers(), "--refuse", "drone=0.1")
	nodes := []*member{c.node("n1"), c.node("n2")}
	k := &keeping{t: t, conn: c.conn, fleet: c.fleet, disk: disk, r: rand.New(rand.NewPCG(seed(t), 51))}
	for _, m := range nodes {
		p.prepare(t, m.engine)
		m.program = cmp.Or(m.engine.program, m.program)
		m.args = append(m.args, "--partitions", strconv.Itoa(partitions))
		m.start()
		k.stores = append(k.stores, filepath.Join(m.data, "state"))
	}
	k.api = nodes[0].engine
	k.kill = func() {
		m := nodes[k.r.IntN(2)]
		m.kill()
		m.launch()
	}
	c.even(patience)
	k.settle(p, brokers.Brokers()...)
	s := c.stream("h-", p.rate, nodes...)
	k.run(s, p)
	l := s.end()
	decided, err := k.offsets(k.conn.EndOffset)
	require.NoError(t, err)
	for _, m := range nodes {
		m.ready()
	}
	k.api.quiet(4 * patience)
	k.drained(p, decided)
	k.ledgersAgree(s, l, p)
	k.verified(c.brokers)
	for _, m := range nodes {
		m.leave()
	}
	for _, m := range nodes {
		k.hashes(m.data, "--brokers", c.brokers)
	}
}

// hashes requires that the state of a stopped node is the fold of what is left of the log.
func (k *keeping) hashes(data string, args ...string) {
	k.t.Helper()
	for _, r := range stateHash(k.t, data, append([]string{"--rebuild"}, args...)...) {
		require.Equal(k.t, r.Hash, r.Rebuilt, "partition %d at %d", r.Partition, r.Offset)
	}
}
