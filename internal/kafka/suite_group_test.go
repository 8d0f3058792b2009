package kafka_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// member joins a group and reports its assignments.
func (w world) member(t *testing.T, cfg kafka.GroupConfig) (*kafka.Group, chan kafka.Partitions) {
	t.Helper()
	assigned := make(chan kafka.Partitions, 16)
	cfg.Group, cfg.Topics = w.Topics.Namespace+".agents", []string{w.Topics.Events()}
	cfg.OnAssigned = func(p kafka.Partitions) { assigned <- p }
	g, err := kafka.NewGroup(w.Cluster, cfg)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g, assigned
}

func awaitAll(t *testing.T, ch chan kafka.Partitions, g *kafka.Group, n int) {
	t.Helper()
	for {
		total := 0
		for _, ps := range g.Assigned() {
			total += len(ps)
		}
		if total == n {
			return
		}
		await(t, ch)
	}
}

func take(t *testing.T, g *kafka.Group, n int) []events.Record {
	t.Helper()
	var out []events.Record
	for len(out) < n {
		recs, err := g.Poll(kafkatest.Within(t), 100)
		require.NoError(t, err)
		out = append(out, recs...)
	}
	return out
}

func groupCommits(t *testing.T, w world) {
	topic := w.Create(t)
	w.Write(t, topic, "a", "b", "c")
	g, ch := w.member(t, kafka.GroupConfig{})
	awaitAll(t, ch, g, 2)
	require.Equal(t, kafka.Partitions{topic: {0, 1}}, g.Assigned())
	require.Equal(t, []string{"a", "b", "c"}, kafkatest.Values(take(t, g, 3)))
	require.NoError(t, g.Commit(kafkatest.Within(t), kafka.Offsets{topic: {0: 2}}))
	require.NoError(t, g.Commit(kafkatest.Within(t), nil))
	got, err := w.CommittedOffsets(kafkatest.Within(t), w.Topics.Namespace+".agents")
	require.NoError(t, err)
	require.EqualValues(t, 2, got[topic][0])
	require.NoError(t, g.Leave(kafkatest.Within(t)))
	_, err = g.Poll(kafkatest.Within(t), 1)
	require.ErrorIs(t, err, kafka.ErrClosed)

	again, ch := w.member(t, kafka.GroupConfig{})
	awaitAll(t, ch, again, 2)
	require.Equal(t, []string{"c"}, kafkatest.Values(take(t, again, 1)), "from the low-water mark, not from what was read")
	w.Write(t, topic, "d")
	require.Equal(t, []string{"d"}, kafkatest.Values(take(t, again, 1)))
}

// The next member gets a mark with its metadata, and only the current assignment can commit.
func groupMarks(t *testing.T, w world) {
	topic := w.Create(t)
	w.Write(t, topic, "a", "b", "c")
	one := kafka.GroupConfig{InstanceID: "one"}
	a, chA := w.member(t, one)
	awaitAll(t, chA, a, 2)
	require.Len(t, take(t, a, 3), 3)
	found := a.Mark(topic, 0)
	require.NotZero(t, found.Assignment)
	require.Equal(t, kafka.Mark{Assignment: found.Assignment}, found)
	mark := kafka.Mark{Assignment: found.Assignment, Next: 1, Metadata: "1+1"}
	stored, err := a.CommitMarks(kafkatest.Within(t), kafka.Marks{topic: {0: mark, 1: {Assignment: found.Assignment + 100, Next: 9}}})
	require.NoError(t, err)
	require.Equal(t, kafka.Marks{topic: {0: mark}}, stored)

	b, chB := w.member(t, one) // the same member after a restart; a is the old process
	awaitAll(t, chB, b, 2)
	require.Equal(t, []string{"b", "c"}, kafkatest.Values(take(t, b, 2)))
	got := b.Mark(topic, 0)
	require.EqualValues(t, 1, got.Next)
	require.Equal(t, "1+1", got.Metadata)
	mark.Next = 3
	stored, err = a.CommitMarks(kafkatest.Within(t), kafka.Marks{topic: {0: mark}})
	if err == nil {
		require.Empty(t, stored, "the old process notices that it was replaced")
	}
	got.Next = 2
	stored, err = b.CommitMarks(kafkatest.Within(t), kafka.Marks{topic: {0: got}})
	require.NoError(t, err)
	require.Equal(t, kafka.Marks{topic: {0: got}}, stored)
	offsets, err := w.CommittedOffsets(kafkatest.Within(t), w.Topics.Namespace+".agents")
	require.NoError(t, err)
	require.EqualValues(t, 2, offsets[topic][0])
	require.NoError(t, b.Leave(kafkatest.Within(t)))
}

func groupLeaves(t *testing.T, w world) {
	w.Create(t)
	for _, static := range []bool{false, true} {
		// Without a leave the partitions are idle for a session, which is longer than a test waits.
		first, second := kafka.GroupConfig{Session: 2 * kafkatest.StepWait}, kafka.GroupConfig{Session: 2 * kafkatest.StepWait}
		if static {
			first.InstanceID, second.InstanceID = "one", "two"
		}
		revoked := make(chan kafka.Partitions, 16)
		first.OnRevoked = func(p kafka.Partitions) { revoked <- p }
		a, chA := w.member(t, first)
		awaitAll(t, chA, a, 2)
		b, chB := w.member(t, second)
		awaitAll(t, chB, b, 1)
		await(t, revoked)
		require.NoError(t, a.Leave(kafkatest.Within(t)))
		await(t, revoked)
		awaitAll(t, chB, b, 2)
		require.NoError(t, b.Leave(kafkatest.Within(t)))
	}
}

func groupRemovesMember(t *testing.T, w world) {
	w.Create(t)
	a, chA := w.member(t, kafka.GroupConfig{InstanceID: "dead", MembershipOnly: true, Session: 2 * kafkatest.StepWait})
	awaitAll(t, chA, a, 2)
	b, chB := w.member(t, kafka.GroupConfig{InstanceID: "alive", MembershipOnly: true})
	awaitAll(t, chB, b, 1)
	a.Close() // as if it had been killed; its session is longer than the test waits
	require.NoError(t, w.RemoveMember(kafkatest.Within(t), w.Topics.Namespace+".agents", "dead"))
	awaitAll(t, chB, b, 2)
	require.NoError(t, w.RemoveMember(kafkatest.Within(t), w.Topics.Namespace+".agents", "never there"))
}

// A member is asked to confirm its partitions while another joins and leaves, and after it was removed without
// noticing.
func groupConfirms(t *testing.T, w world) {
	topic := w.Create(t)
	// The member must not notice before the other has joined: it would take the name back, and the other would never get a partition. On a busy
	// machine that takes most of a minute.
	one := kafka.GroupConfig{InstanceID: "one", Session: 5 * time.Minute, Heartbeat: 4 * time.Minute}
	a, chA := w.member(t, one)
	awaitAll(t, chA, a, 2)
	first, err := a.Confirm(kafkatest.Within(t))
	require.NoError(t, err)
	require.Len(t, first[topic], 2)
	again, err := a.Confirm(kafkatest.Within(t))
	require.NoError(t, err)
	require.Equal(t, first, again)
	// The member commits when it begins to read. The answer would make it notice its removal and rejoin.
	for ctx := kafkatest.Within(t); ; {
		offsets, err := w.CommittedOffsets(ctx, w.Topics.Namespace+".agents")
		require.NoError(t, err)
		if len(offsets[topic]) == 2 {
			break
		}
	}

	require.NoError(t, w.RemoveMember(kafkatest.Within(t), w.Topics.Namespace+".agents", "one"))
	_, err = a.Confirm(kafkatest.Within(t))
	require.Error(t, err, "it was removed, and will learn that only from its next heartbeat")
	b, chB := w.member(t, one)
	awaitAll(t, chB, b, 2)
	_, err = a.Confirm(kafkatest.Within(t))
	require.Error(t, err, "another process has its name")
	// This comes last, because the answer makes the member notice.
	stored, err := a.CommitMarks(kafkatest.Within(t), kafka.Marks{topic: {0: {Assignment: first[topic][0], Next: 1}}})
	require.NoError(t, err)
	require.Empty(t, stored)
	held, err := b.Confirm(kafkatest.Within(t))
	require.NoError(t, err)
	require.Len(t, held[topic], 2)
	require.NoError(t, b.Leave(kafkatest.Within(t)))
}

// A partition that a member keeps through a rebalance is not shared. One that it receives may have been read by another
// member.
func groupSharesNothingItKept(t *testing.T, w world) {
	topic := w.Create(t)
	w.Write(t, topic, "a", "b")
	a, chA := w.member(t, kafka.GroupConfig{InstanceID: "one"})
	awaitAll(t, chA, a, 2)
	require.Len(t, take(t, a, 2), 2)
	require.Zero(t, a.Shared(topic, 0), "nothing was committed, so nothing was read")
	offsets, err := w.CommittedOffsets(kafkatest.Within(t), w.Topics.Namespace+".agents")
	require.NoError(t, err)
	require.Equal(t, kafka.Offsets{topic: {0: 0, 1: 0}}, offsets, "from now on something is")
	first, err := a.Confirm(kafkatest.Within(t))
	require.NoError(t, err)

	b, chB := w.member(t, kafka.GroupConfig{InstanceID: "two"})
	for len(b.Assigned()[topic]) == 0 {
		held, _ := a.Confirm(kafkatest.Within(t)) // there is no answer while the member joins
		for p, id := range held[topic] {
			require.Equal(t, first[topic][p], id)
		}
		select {
		case <-chB:
		default:
		}
	}
	kept := a.Assigned()[topic]
	require.Len(t, kept, 1)
	require.NoError(t, a.Leave(kafkatest.Within(t)))
	awaitAll(t, chB, b, 2)
	w.Write(t, topic, "c")
	require.Equal(t, []string{"a", "b", "c"}, kafkatest.Values(take(t, b, 3)))
	require.GreaterOrEqual(t, b.Shared(topic, 0), int64(2))
	require.LessOrEqual(t, b.Shared(topic, 0), int64(3))
	require.NoError(t, b.Leave(kafkatest.Within(t)))
}

// watch calls Watch, which must end before the test.
func watch(t *testing.T, g *kafka.Group) chan error {
	t.Helper()
	ctx := kafkatest.Within(t)
	ended := make(chan error, 1)
	go func() { ended <- g.Watch(ctx) }()
	return ended
}

func groupFences(t *testing.T, w world) {
	w.Create(t)
	for _, only := range []bool{true, false} {
		revoked := make(chan kafka.Partitions, 16)
		cfg := kafka.GroupConfig{InstanceID: "same", MembershipOnly: only, OnRevoked: func(p kafka.Partitions) { revoked <- p }}
		a, chA := w.member(t, cfg)
		watchA := watch(t, a)
		awaitAll(t, chA, a, 2)
		cfg.OnRevoked = nil
		b, chB := w.member(t, cfg)
		watchB := watch(t, b)
		awaitAll(t, chB, b, 2)
		if !only {
			_, err := a.Poll(kafkatest.Within(t), 1)
			require.ErrorIs(t, err, kafka.ErrFenced)
		}
		err := await(t, watchA)
		require.ErrorIs(t, err, kafka.ErrFenced)
		require.ErrorContains(t, err, `"same"`)
		require.Len(t, await(t, revoked), 1, "it gave up its partitions first")
		require.Empty(t, a.Assigned())
		require.NoError(t, a.Leave(kafkatest.Within(t)), "and it removes nobody when it leaves")
		require.NoError(t, b.Commit(kafkatest.Within(t), kafka.Offsets{w.Topics.Events(): {0: 1}}), "the newer is a member")
		require.NoError(t, b.Leave(kafkatest.Within(t)))
		require.ErrorIs(t, await(t, watchB), kafka.ErrClosed)
	}
}

func groupComesBack(t *testing.T, w world) {
	w.Create(t)
	changes := make(chan string, 16)
	g, ch := w.member(t, kafka.GroupConfig{
		InstanceID: "woken", MembershipOnly: true, OnRevoked: func(kafka.Partitions) { changes <- "revoked" },
	})
	ended := watch(t, g)
	awaitAll(t, ch, g, 2)
	require.NoError(t, w.RemoveMember(kafkatest.Within(t), w.Topics.Namespace+".agents", "woken"))
	require.Equal(t, "revoked", await(t, changes))
	awaitAll(t, ch, g, 2)
	require.NoError(t, g.Leave(kafkatest.Within(t)))
	require.ErrorIs(t, await(t, ended), kafka.ErrClosed)
}

func groupNamesMembers(t *testing.T, w world) {
	w.Create(t)
	group := w.Topics.Namespace + ".agents"
	var names []string
	var err error
	require.Eventually(t, func() bool {
		names, err = w.StaticMembers(kafkatest.Within(t), group)
		return !errors.Is(err, kerr.CoordinatorNotAvailable) // the first group of a cluster creates the topic of all groups
	}, kafkatest.StepWait, 100*time.Millisecond)
	require.NoError(t, err)
	require.Nil(t, names, "no such group")
	a, _ := w.member(t, kafka.GroupConfig{InstanceID: "b"})
	b, _ := w.member(t, kafka.GroupConfig{InstanceID: "a"})
	c, _ := w.member(t, kafka.GroupConfig{})
	require.Eventually(t, func() bool {
		names, err = w.StaticMembers(kafkatest.Within(t), group)
		return err != nil || slices.Equal(names, []string{"a", "b"})
	}, kafkatest.StepWait, 20*time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, b.Leave(kafkatest.Within(t)))
	names, err = w.StaticMembers(kafkatest.Within(t), group)
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, names)
	require.NoError(t, a.Leave(kafkatest.Within(t)))
	require.NoError(t, c.Leave(kafkatest.Within(t)))
	names, err = w.StaticMembers(kafkatest.Within(t), group)
	require.NoError(t, err)
	require.Empty(t, names)
}

func groupMembershipOnly(t *testing.T, w world) {
	topic := w.Create(t)
	w.Write(t, topic, "a")
	g, ch := w.member(t, kafka.GroupConfig{InstanceID: "node", MembershipOnly: true})
	awaitAll(t, ch, g, 2)
	require.NoError(t, g.Commit(kafkatest.Within(t), kafka.Offsets{topic: {0: 1}}), "for lag tools")
	require.NoError(t, g.Leave(kafkatest.Within(t)))
}
