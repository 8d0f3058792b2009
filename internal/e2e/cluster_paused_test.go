package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// hooked builds the program with its test hooks. This build can hold appends back.
func hooked(t *testing.T) string {
	t.Helper()
	path := program("sagalog-hooks")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	build := exec.Command("go", "build", "-tags", "sagalog_testhooks", "-o", path, "./cmd/sagalog")
	build.Dir = filepath.Join("..", "..")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// An owner is stopped in the middle of an append until another node has taken over its partitions, and then resumed.
// Its facts arrive late and are void: they change nothing for any reader, and it sends no effects. It steps down and
// gets its share of partitions again.
func TestClusterPausedOwner(t *testing.T) {
	besideOthers(t)
	c := newCluster(t, kafkatest.Options{}, "--refuse", "drone=0.1")
	one, two := c.node("n1"), c.node("n2")
	hold := filepath.Join(c.work, "hold")
	one.program = hooked(t)
	one.env = append(one.env, "SAGALOG_TEST_HOLD_APPENDS="+hold)
	one.start()
	two.start()
	c.even(patience)
	s := c.stream("p-", sized(*rateFlag, 20, 60), one, two)
	before := 0
	for i := range sized(*pausesFlag, 2, 6) {
		held := i%2 == 0 // every other pause is like a laptop's sleep
		if held {
			require.NoError(t, os.WriteFile(hold, nil, 0o600))
			eventually(t, patience, "facts are held back in each of its partitions", func() bool { return one.waiting() })
		}
		one.replaced(two, func() { require.NoError(t, os.RemoveAll(hold)) })
		if held {
			eventually(t, patience, "a void fact lands", func() bool {
				return c.log.look(t.Context()) == nil && c.log.late() > before
			})
			t.Logf("pause %d: %d records landed behind the claim of the next owner", i+1, c.log.late()-before)
		}
		before = c.log.late()
		c.even(patience)
		one.alone(two)
	}
	l := s.end()
	c.ended(l)
	f := c.agree(l)
	require.Positive(t, f.Ownership.Late, "the log has no void fact of a deposed owner")
	require.Equal(t, c.log.late(), f.Ownership.Late)
	for _, m := range []*member{one, two} {
		require.True(t, m.running(), "%s has ended:\n%s", m.name, tail(m.err, 20))
	}
	c.same(l, one, two)
	c.lies(l, 4)
	c.hashes()
}

// replaced stops a node until another node has claimed all its partitions, calls `then`, and resumes the node.
func (m *member) replaced(by *member, then func()) {
	m.t.Helper()
	require.NoError(m.t, m.c.log.look(m.t.Context()))
	had := m.c.log.epochs(m.name)
	require.NotEmpty(m.t, had)
	begun := time.Now()
	m.pause()
	eventually(m.t, patience, by.name+" has claimed every partition", func() bool {
		return m.c.log.look(m.t.Context()) == nil && len(m.c.log.epochs(by.name)) == len(m.c.log.parts)
	})
	took := time.Since(begun)
	then()
	m.resume()
	m.t.Logf("%s was stopped; %s had its %d partitions after %s", m.name, by.name, len(had), took.Round(time.Millisecond))
}

// gauges reads a metric of the owners by partition. It is nil if the node does not answer.
func (m *member) gauges(name string) map[int]float64 {
	status, b, err := m.try("GET", "/metrics", nil)
	if err != nil || status != 200 {
		return nil
	}
	values := map[int]float64{}
	for line := range strings.Lines(string(b)) {
		var partition int
		rest, ok := strings.CutPrefix(line, "sagalog_"+name+`{partition="`)
		if !ok {
			continue
		}
		number, value, _ := strings.Cut(rest, `"} `)
		partition, err := strconv.Atoi(number)
		require.NoError(m.t, err, line)
		values[partition], err = strconv.ParseFloat(strings.TrimSpace(value), 64)
		require.NoError(m.t, err, line)
	}
	return values
}

// waiting says whether the node has unanswered appends in each partition that it owns.
func (m *member) waiting() bool {
	flying := m.gauges("owner_appends_in_flight")
	n := 0
	for p, owning := range m.gauges("partition_owned") {
		if owning == 1 {
			n++
			if flying[p] == 0 {
				return false
			}
		}
	}
	return n > 0
}

// alone requires that exactly one of the nodes decides each partition, and that the log names the same owner.
func (m *member) alone(other *member) {
	m.t.Helper()
	eventually(m.t, patience, "each partition has one owner", func() bool {
		if m.c.log.look(m.t.Context()) != nil {
			return false
		}
		for p, owner := range m.c.log.owners() {
			for _, n := range []*member{m, other} {
				if owning := n.gauges("partition_owned")[int(p)] == 1; owning != (n.name == owner) {
					return false
				}
			}
		}
		return true
	})
}

// page returns the documents of a page of tasks as they were sent. It leaves out the cursor, which differs from
// node to node.
func (m *member) page(query string) (tasks []string) {
	m.t.Helper()
	var page struct {
		Tasks   []json.RawMessage
		Missing []any
	}
	requireJSON(m.t, m.ask(200, "GET", "/v1/tasks?"+query, nil), &page)
	require.Empty(m.t, page.Missing)
	for _, t := range page.Tasks {
		tasks = append(tasks, string(t))
	}
	return tasks
}

// same requires that the given nodes give the same answers about a sample of a load's deliveries, and to some lists.
func (c *cluster) same(l *load, nodes ...*member) {
	c.t.Helper()
	compared := 0
	for i := 1; i <= l.count; i += max(1, l.count/100) {
		path := taskPath(l.id(i))
		for _, p := range []string{path, path + "/history?limit=1000"} {
			first := nodes[0].ask(200, "GET", p, nil)
			for _, m := range nodes[1:] {
				require.Equal(c.t, string(first), string(m.ask(200, "GET", p, nil)), "%s and %s differ about %s", nodes[0].name, m.name, p)
			}
		}
		compared++
	}
	for _, query := range []string{"limit=500", "limit=500&state=undone", "limit=500&workflow=drone-delivery"} {
		first := nodes[0].page(query)
		for _, m := range nodes[1:] {
			require.Equal(c.t, first, m.page(query), "%s and %s list differently: %s", nodes[0].name, m.name, query)
		}
	}
	c.t.Logf("%d documents, their histories and three lists are the same on %d nodes", compared, len(nodes))
}
