package e2e

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// market is an engine with its services and the Kafka that it shares with foreign programs.
type market struct {
	*engine
	fleet   *fleet
	cluster *kafka.Cluster
}

// orders is a topic of the foreign programs. The engine does not know it.
const orders = "orders"

// embeddedMarket is `sagalog dev` with its own broker.
func embeddedMarket(t *testing.T) *market {
	t.Helper()
	work := workDir(t)
	m := &market{fleet: startFleet(t, work)}
	m.engine = newEngineWith(t, work, m.fleet)
	m.start()
	return m.open(m.engine.cluster())
}

// realMarket is `sagalog serve` on an Apache Kafka.
func realMarket(t *testing.T, k *kafkatest.Real) *market {
	t.Helper()
	work := workDir(t)
	m := &market{fleet: startFleet(t, work)}
	m.engine = newEngineWith(t, work, m.fleet)
	files := filepath.Join(work, "files")
	m.args = []string{"serve", "--brokers", k.Bootstrap(), "--namespace", topics.Namespace, "--node", "n1", "--http", freePort(t),
		"--workflows", files, "--agents", filepath.Join(files, "agents"), "--start-within", patience.String()}
	m.start()
	return m.open(k.Connect(t, "", ""))
}

func (m *market) open(c *kafka.Cluster) *market {
	m.t.Helper()
	m.cluster = c
	require.NoError(m.t, kafka.EnsureTopics(m.t.Context(), c, kafka.TopicSpec{Name: orders, Partitions: 3, MaxMessageBytes: kafka.MaxMessageBytes}))
	return m
}

// shop runs a foreign program against the market; prefix begins the IDs of its tasks.
func (m *market) shop(l *language, act, prefix string, more ...string) *foreign {
	m.t.Helper()
	return l.run(m.t, append([]string{act, m.Kafka, topics.Namespace, prefix}, more...)...)
}

// done requires that a task took effect exactly once: in its history, in the events that the program read, and
// at a service.
func (m *market) done(id string, facts []string) {
	m.t.Helper()
	require.Equal(m.t, "processed", m.settled(id).State, id)
	var kinds []string
	// The program reads the log, and the API what it has folded of it: a conflict may be judged after the task has ended.
	eventually(m.t, patience, id+": the API returns the history that the program read", func() bool {
		kinds = nil
		for _, f := range m.history(id) {
			kinds = append(kinds, f.Type)
		}
		return len(kinds) >= len(facts)
	})
	require.Equal(m.t, kinds, facts, "%s: the program read another history than the API returns", id)
	require.Equal(m.t, "Submitted", facts[0], id)
	m.once(id)
}

// once requires that a task has one submission, one end, and one delivery.
func (m *market) once(id string) {
	m.t.Helper()
	facts := m.history(id)
	require.Equal(m.t, 1, count(facts, "Submitted"), id)
	require.Equal(m.t, 1, count(facts, "TaskProcessed"), id)
	require.Equal(m.t, 1, m.calls("delivery", id), id)
}

// calls returns how many calls a service received about a task. The header that names it is percent-encoded.
func (m *market) calls(service, id string) int {
	m.t.Helper()
	n := 0
	for _, l := range m.fleet.ledger(m.t, service, "") {
		named, err := url.PathUnescape(l.Task)
		require.NoError(m.t, err)
		if named == id {
			n++
		}
	}
	return n
}

// never requires that nothing about these tasks ever appears: no fact, no dead letter, no call.
func (m *market) never(ids ...string) {
	m.t.Helper()
	for _, topic := range []string{topics.Events(), topics.DeadSubmissions(), topics.Work("account")} {
		records(m.t, m.cluster, topic, func(r events.Record) {
			require.NotContains(m.t, ids, string(r.Key), "%s/%d at %d", topic, r.Partition, r.Offset)
		})
	}
	for _, id := range ids {
		m.ask(404, "GET", taskPath(id), nil)
		// By now the engine has judged everything before it, even if that ends in a marker. It knows that there is no
		// such task, and holds no request for it.
		m.ask(404, "POST", taskPath(id)+"/cancel", []byte(`{}`))
		require.Zero(m.t, m.calls("account", id), id)
	}
}

// A program that relies only on events/FORMAT.md submits in each form, with IDs in various scripts, and sees each task
// end by reading sagalog.events. A repeated submission changes nothing, and one with different content becomes a dead
// letter.
func TestForeignSubmissions(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.ready(t)
			embeddedMarket(t).submissions(l)
		})
	}
}

func (m *market) submissions(l *language) {
	m.t.Helper()
	t := m.t
	acts := m.shop(l, "submit", l.name+" ").all()
	require.Greater(t, len(acts["again"]), 15)
	forwarded := 0
	for _, s := range acts["first"] {
		require.Equal(t, "Submitted", s.Outcome, s.Task)
		if s.Forwarded {
			forwarded++
		}
	}
	require.Equal(t, l.murmur2, forwarded == 0, "%d of %d submissions were in a wrong partition", forwarded, len(acts["first"]))
	require.Len(t, acts["end"], len(acts["first"]))
	for _, s := range acts["end"] {
		require.Equal(t, "TaskProcessed", s.Facts[len(s.Facts)-1], s.Task)
	}
	for _, s := range acts["again"] {
		require.Equal(t, "duplicate", s.Outcome, s.Task)
	}
	require.Len(t, acts["other"], len(acts["again"]))
	for _, s := range append(acts["other"], acts["typo"]...) {
		require.Equal(t, "InputRejected", s.Outcome, s.Task)
		require.Equal(t, topics.Submissions(), s.Topic, s.Task)
		require.True(t, s.Untouched, s.Task)
		if s.Act == "other" {
			require.Equal(t, events.RejectConflict, s.Reason, s.Task)
		}
	}
	require.Len(t, acts["typo"], 1)
	require.Equal(t, events.RejectInvalid, acts["typo"][0].Reason)
	require.Contains(t, acts["typo"][0].Message, "lables")
	require.Len(t, acts["after"], len(acts["first"]))
	for _, s := range acts["after"] {
		m.done(s.Task, s.Facts)
	}
	t.Logf("%d submissions, %d of them sent home; each took effect once, %d repeats had no effect, %d with different content are dead letters",
		len(acts["first"]), forwarded, len(acts["again"]), len(acts["other"]))
}

// A submission inside a producer's transaction becomes a task if the transaction commits, and has no
// effect otherwise. Records after an open transaction wait until it ends in either way.
func TestForeignTransactions(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.ready(t)
			m := embeddedMarket(t)
			m.transactions(l)
			for _, end := range []string{"commit", "abort", "die"} {
				m.openTransaction(l, end)
			}
			m.stop()
			m.proveHashes()
		})
	}
}

func (m *market) transactions(l *language) {
	m.t.Helper()
	t := m.t
	acts := m.shop(l, "transact", l.name+"-").all()
	again := l.name + "-dropped-0" // aborted, and then committed
	var dropped []string
	for _, s := range acts["aborted"] {
		if s.Task != again {
			dropped = append(dropped, s.Task)
		}
	}
	require.Len(t, acts["committed"], 4)
	require.Len(t, acts["behind"], 4)
	require.Len(t, dropped, 4)
	for _, s := range append(acts["committed"], acts["behind"]...) {
		require.Equal(t, "Submitted", s.Outcome, s.Task)
		m.done(s.Task, s.Facts)
	}
	require.Len(t, acts["retried"], 2)
	require.Equal(t, []string{"Submitted", "duplicate"}, []string{acts["retried"][0].Outcome, acts["retried"][1].Outcome})
	m.done(again, acts["retried"][1].Facts)
	m.never(dropped...)
}

// openTransaction leaves a transaction open that contains a submission, lets another producer submit after it, and then
// ends the transaction.
func (m *market) openTransaction(l *language, end string) {
	m.t.Helper()
	t := m.t
	timeout := time.Minute
	if end == "die" {
		timeout = 2 * time.Second // only the broker ends this transaction
	}
	prefix := l.name + "-" + end + "-"
	p := m.shop(l, "open", prefix, fmt.Sprint(timeout.Milliseconds()))
	open, ok := p.next()
	require.True(t, ok, "%s:\n%s", p.name, &p.faults)
	if end != "die" {
		m.heldBack(open)
	}
	if end == "commit" && l == languages[0] {
		m.lagging(open.Partition, 2) // the open submission, and the one after it
		defer m.lagging(open.Partition, 0)
	}
	begun := time.Now()
	if end == "die" {
		p.kill()
	} else {
		p.tell(end)
		require.Zero(t, p.wait(), "%s:\n%s", p.name, &p.faults)
	}
	require.Equal(t, "processed", m.settled(open.Behind).State, "the later submission continues")
	t.Logf("%s: the later submission was done %s after that", end, time.Since(begun).Round(time.Millisecond))
	m.once(open.Behind)
	if end == "commit" {
		require.Equal(t, "processed", m.settled(open.Task).State)
		m.once(open.Task)
	} else {
		m.never(open.Task)
	}
}

// lagging waits until lag tools show that this many records of a partition of submissions have not been
// judged.
func (m *market) lagging(partition int32, want int64) {
	m.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(m.Kafka, ",")...))
	require.NoError(m.t, err)
	defer client.Close()
	tool := kadm.NewClient(client)
	group := topics.Namespace + ".owners"
	eventually(m.t, patience, fmt.Sprintf("the lag of group %s in partition %d is %d", group, partition, want), func() bool {
		lags, err := tool.Lag(m.t.Context(), group)
		require.NoError(m.t, err)
		got, ok := lags[group].Lag.Lookup(topics.Submissions(), partition)
		return ok && got.Err == nil && got.Lag == want
	})
}

// heldBack requires that an open transaction holds back its own partition and no other.
func (m *market) heldBack(open said) {
	m.t.Helper()
	t, at := m.t, kafka.Partitions{topics.Submissions(): {open.Partition}}
	ends, err := m.cluster.EndOffsets(t.Context(), at)
	require.NoError(t, err)
	require.Equal(t, open.Offset, ends[topics.Submissions()][open.Partition], "the last stable offset")
	marks, err := m.cluster.HighWatermarks(t.Context(), at)
	require.NoError(t, err)
	require.Equal(t, open.Later+1, marks[topics.Submissions()][open.Partition])

	partitions, err := m.cluster.Partitions(t.Context(), topics.Submissions())
	require.NoError(t, err)
	elsewhere := 0
	for n := 0; elsewhere < 3; n++ {
		id := fmt.Sprintf("%s-elsewhere-%d", open.Task, n)
		if events.Home(id, partitions) == open.Partition {
			continue
		}
		m.submit(id, delivery(id, n))
		require.Equal(t, "processed", m.settled(id).State, "other partitions continue")
		elsewhere++
	}
	m.ask(404, "GET", taskPath(open.Task), nil)
	m.ask(404, "GET", taskPath(open.Behind), nil)
}

// A transaction is open when the engine stops together with its broker. After a clean stop it is still open and may
// commit. After kill -9 the broker aborts it, and its producer gets an error.
func TestForeignTransactionOverARestart(t *testing.T) {
	t.Parallel()
	l := languages[0]
	for how, down := range map[string]func(*market){"Ctrl-C": func(m *market) { m.stop() }, "kill -9": func(m *market) { m.kill() }} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l.ready(t)
			m := embeddedMarket(t)
			p, open := m.alone(l, "r-")
			down(m)
			m.start()
			if how == "Ctrl-C" {
				p.tell("commit")
				require.Zero(t, p.wait(), "%s", &p.faults)
				require.Equal(t, "processed", m.settled(open.Task).State)
				m.once(open.Task)
			} else {
				m.never(open.Task)
				p.tell("commit")
				require.NotZero(t, p.wait(), "the producer believes that it committed what the broker had aborted")
				m.never(open.Task)
			}
			m.stop()
			m.proveHashes()
		})
	}
}

// alone leaves a transaction open with nothing after it.
func (m *market) alone(l *language, prefix string) (*foreign, said) {
	m.t.Helper()
	p := m.shop(l, "open", prefix, fmt.Sprint(time.Minute.Milliseconds()), "alone")
	open, ok := p.next()
	require.True(m.t, ok, "%s:\n%s", p.name, &p.faults)
	return p, open
}

// proveHashes requires that the state of a stopped engine is the fold of its log.
func (m *market) proveHashes() {
	m.t.Helper()
	for _, r := range stateHash(m.t, m.data, "--rebuild") {
		require.Equal(m.t, r.Hash, r.Rebuilt, "partition %d", r.Partition)
	}
}

// The same against an Apache Kafka with one broker, which checks each second for transactions that have timed out.
// There the transaction outlives the engine. After kill -9 the engine continues before the end of the transaction, and
// then after its marker.
func TestClusterForeign(t *testing.T) {
	besideOthers(t)
	k := kafkatest.Up(t, kafkatest.Options{Set: map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}})
	m := realMarket(t, k)
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			m.t = t
			m.submissions(l)
			m.transactions(l)
			for _, end := range []string{"commit", "abort", "die"} {
				m.openTransaction(l, end)
			}
		})
	}
	m.t = t
	for _, end := range []string{"commit", "abort"} {
		p, open := m.alone(languages[0], "over-"+end+"-")
		m.kill()
		m.start()
		p.tell(end)
		require.Zero(t, p.wait(), "%s", &p.faults)
		if end == "commit" {
			require.Equal(t, "processed", m.settled(open.Task).State)
			m.once(open.Task)
		} else {
			m.never(open.Task)
		}
	}
	m.kill() // the next owner resumes after a marker
	m.start()
	for _, p := range m.partitions() {
		f := fold(t, m.cluster, p.Partition, p.AppliedOffset)
		require.Equal(t, p.StateHash, f.hash.String(), "partition %d", p.Partition)
	}
	m.stop()
}
