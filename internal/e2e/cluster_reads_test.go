package e2e

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// Any node answers for all partitions, whether it follows every partition, knows only its own, or owns none.
func TestClusterAnyNodeAnswers(t *testing.T) {
	besideOthers(t)
	c := newCluster(t, kafkatest.Options{}, "--refuse", "drone=0.1")
	nodes := []*member{c.up("n1"), c.up("n2", "owner", "agent", "api"), c.up("n3", "api")}
	c.even(patience)
	for _, m := range nodes {
		m.ready()
	}
	// Each node gets a load, and right after each submission the other nodes get reads with its token.
	for i, m := range nodes {
		l := c.burst("any-"+m.name+"-", sized(0, 60, 300), m)
		for p := range int32(len(c.log.parts)) {
			id := homed("token-"+m.name+"-", p, int32(len(c.log.parts)))
			token := m.submit(id, delivery(id, 7))
			by := nodes[(i+1)%len(nodes)]
			var got task
			requireJSON(t, by.ask(200, "GET", taskPath(id)+"?token="+token+"&wait=20s", nil), &got)
			require.Equal(t, id, got.ID)
			require.Contains(t, []string{"processed", "undone"}, got.State, "asked %s for %s", by.name, id)
		}
		l.acknowledged(t, patience)
		c.ended(l)
		c.agree(l)
		c.same(l, nodes...)
	}
	anyNodeRefuses(t, nodes)

	// The node that owns nothing continues to answer when an owner leaves and when one dies.
	api := nodes[2]
	nodes[1].leave()
	c.even(patience)
	id := homed("left-", 0, int32(len(c.log.parts)))
	api.submit(id, delivery(id, 1))
	begun := time.Now()
	require.NotEmpty(t, api.settled(id).State)
	t.Logf("as read by the node without partitions, it ended after %s", time.Since(begun).Round(time.Millisecond))
	nodes[1].start()
	c.even(patience)
	nodes[0].kill()
	begun = time.Now()
	for p := range int32(len(c.log.parts)) {
		id := homed("died-", p, int32(len(c.log.parts)))
		api.submit(id, delivery(id, 1))
		require.Contains(t, []string{"processed", "undone"}, api.settled(id).State)
	}
	t.Logf("an owner died: as read by a node without partitions, a delivery of each partition ended after %s", time.Since(begun).Round(time.Millisecond))
	nodes[0].start()
	c.even(patience)
	c.hashes()
}

// anyNodeRefuses looks at answers other than a task. A node that follows a partition can tell a repeat from a conflict
// at once. A node that does not follow it accepts both, and the owner tells them apart later. Either way, the first
// submission counts.
func anyNodeRefuses(t *testing.T, nodes []*member) {
	t.Helper()
	id := homed("conflict-", 0, 8)
	nodes[0].submit(id, delivery(id, 1))
	first := nodes[0].settled(id)
	unknown := 0
	for _, m := range nodes {
		m.ask(404, "GET", taskPath("nobody-"+m.name), nil)
		m.ask(404, "GET", taskPath("nobody-"+m.name)+"/history", nil)
		repeat, _, err := m.try("PUT", taskPath(id), delivery(id, 1))
		require.NoError(t, err)
		conflict, problem, err := m.try("PUT", taskPath(id), delivery(id, 2))
		require.NoError(t, err)
		if !m.has("projector") && repeat == 202 {
			require.Equal(t, 202, conflict, "%s", problem)
			unknown++
			continue
		}
		require.Equal(t, []int{200, 409}, []int{repeat, conflict}, "%s: %s", m.name, problem)
	}
	eventually(t, patience, "each accepted conflict is a dead letter", func() bool { return len(nodes[0].deadReasons()) >= unknown })
	require.Len(t, nodes[0].deadReasons(), unknown)
	for _, m := range nodes {
		require.Equal(t, first, m.settled(id), "the first submission counts")
	}
	t.Logf("%d of %d nodes accepted a conflict, which is now a dead letter", unknown, len(nodes))
}

// homed returns an ID with the given prefix whose home is the given partition.
func homed(prefix string, p, partitions int32) string {
	for i := 0; ; i++ {
		if id := prefix + string(rune('a'+i%26)) + string(rune('a'+i/26)); events.Home(id, partitions) == p {
			return id
		}
	}
}
