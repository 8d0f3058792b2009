package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// TestTwoLiveOwnersOfOnePartition makes two owners decide at the same time, each sure that it owns the partition. The
// log shows which one is right, and every reader skips the facts of the other.
func TestTwoLiveOwnersOfOnePartition(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoSteps)
	a := b.candidate("A").own()
	b.submit("t1", "two", "")
	a.run()
	a.hold["LogRecords"] = true // A does not read its own log: it is cut off, not dead

	c := b.candidate("C").own()
	require.True(t, a.o.Status().Owning)
	require.True(t, c.o.Status().Owning, "both believe that they own the partition")
	require.NotEqual(t, a.o.Status().Epoch, c.o.Status().Epoch)

	b.done("t1", "first", 1)
	b.submit("t2", "two", "")
	a.hold["Append"] = true
	a.run() // A decides on the same inputs as C
	stale := held[supervisor.Append](a)
	require.NotEmpty(t, stale)
	before := len(b.log)
	a.hold["Append"] = false
	a.run()
	require.Greater(t, len(b.log), before, "A's stale facts are in the log")
	after, _, void := b.read()
	require.Positive(t, void, "and they are void")
	c.run()

	for i := range b.log { // no reader's state changes because of the void facts
		if i >= before && i < before+len(stale[0].Records) {
			f, err := events.DecodeFact(&b.log[i])
			require.NoError(t, err)
			require.NotEqual(t, after.Partition.Epoch, f.Epoch)
		}
	}
	require.False(t, a.o.Status().Owning, "A stepped down when it saw the gap")
	require.Equal(t, 1, countOf(c.work(), "t1.second do#1"))
	require.Zero(t, countOf(a.work(), "t1.second do#1"), "none of its effects left")
	oneOwnerPerEpoch(t, b)
	sameEverywhere(t, b, c)
}

func countOf(list []string, what string) (n int) {
	for _, x := range list {
		if x == what {
			n++
		}
	}
	return n
}

// oneOwnerPerEpoch checks INV11 on the log: the epochs of accepted facts are consecutive, and each begins with one
// claim.
func oneOwnerPerEpoch(t *testing.T, b *bench) {
	t.Helper()
	_, accepted, _ := b.read()
	var n uint64
	for _, f := range accepted {
		if _, ok := f.Body.(*events.PartitionClaimed); ok {
			n++
			continue
		}
		require.Equal(t, n, f.Epoch.N, "INV11: epochs do not interleave")
	}
}

// sameEverywhere checks that the committed state is what a reader without a store gets.
func sameEverywhere(t *testing.T, b *bench, c *candidate) {
	t.Helper()
	s, _, _ := b.read()
	h, err := s.Hash()
	require.NoError(t, err)
	require.EqualValues(t, len(b.log), c.store.Next())
	require.Equal(t, h, c.store.Sum(), "INV2")
}

func TestTwoCandidatesAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a, c := b.candidate("A", func(c *candidate) { c.cfg.RetryPause = time.Second }), b.candidate("C")
	a.hold["Claim"], c.hold["Claim"] = true, true
	a.o.Assign(b.now)
	c.o.Assign(b.now)
	a.run()
	c.run()
	a.hold["Claim"], c.hold["Claim"] = false, false
	c.run() // both claims name the same predecessor: the first in the log wins
	a.run()
	require.True(t, c.o.Status().Owning)
	require.False(t, a.o.Status().Owning)
	_, _, void := b.read()
	require.Equal(t, 1, void)
	c.hold["Claim"] = true
	a.pass(time.Second) // A claims again, because the partition is still assigned to it
	require.True(t, a.o.Status().Owning)
	c.run()
	require.False(t, c.o.Status().Owning, "C read the newer claim while it was idle")
	oneOwnerPerEpoch(t, b)
}

// A deposed owner waits for two heartbeats of the group before it claims again, so that the group can say whether it
// was replaced.
func TestADeposedOwnerWaitsForTheGroup(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a, c := b.candidate("A").own(), b.candidate("C")
	c.own()
	a.run() // it reads the other claim
	require.False(t, a.o.Status().Owning)
	a.pass(900 * time.Millisecond)
	require.Len(t, claims(t, b), 2, "it still waits")
	a.pass(time.Second)
	require.Len(t, claims(t, b), 3, "the partition is still assigned to it")
	require.True(t, a.o.Status().Owning)
	oneOwnerPerEpoch(t, b)
}

// A partition that stopped with an error is tried again only after it was revoked and assigned
// again.
func TestAStoppedOwnerTriesAgainWhenAssignedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.o.Lost(b.now, a.o.Status().Generation, supervisor.EventsTopic, supervisor.Loss{}, errDisk)
	a.run()
	require.Equal(t, "stopped", a.o.Status().Phase)
	a.o.Assign(b.now)
	a.pass(time.Second)
	require.Equal(t, "stopped", a.o.Status().Phase)
	a.o.Revoke(b.now)
	a.run()
	require.Equal(t, "idle", a.o.Status().Phase)
	a.stopped = nil
	a.own()
	b.submit("t1", "one", "")
	a.run()
	require.Equal(t, []string{"t1.only do#1"}, a.work())
	oneOwnerPerEpoch(t, b)
}

func claims(t *testing.T, b *bench) (owners []string) {
	t.Helper()
	for i := range b.log {
		f, err := events.DecodeFact(&b.log[i])
		require.NoError(t, err)
		if c, ok := f.Body.(*events.PartitionClaimed); ok {
			owners = append(owners, c.Owner)
		}
	}
	return owners
}

// TestNoEffectLeavesBeforeItsAcknowledgement is RuleDurable (INV8): it fails if a Send comes out before Appended.
func TestNoEffectLeavesBeforeItsAcknowledgement(t *testing.T) {
	t.Parallel()
	effects := func(off supervisor.Rule) (before, after int) {
		b := newBench(t, oneStep)
		a := b.candidate("A", func(c *candidate) { c.cfg.Off = off }).own()
		a.hold["Append"], a.hold["Send"] = true, true
		b.submit("t1", "one", "")
		b.put(events.Submissions, events.Record{Value: []byte("garbage")})
		a.run()
		require.NotEmpty(t, held[supervisor.Append](a), "the append is in flight")
		before = len(held[supervisor.Send](a))
		a.hold["Append"] = false
		a.run()
		return before, len(held[supervisor.Send](a))
	}
	before, after := effects(0)
	require.Zero(t, before, "INV8: an effect left before its fact was acknowledged")
	require.Equal(t, 2, after, "they leave once the facts are acknowledged")
	before, _ = effects(supervisor.RuleDurable)
	require.NotZero(t, before, "the test would notice an effect that leaves too early")
}

func TestAnswersAreTakenInTheOrderOfTheBatches(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.BatchFacts, c.cfg.Settings.HashEvery = 2, 1000 }).own()
	a.hold["Append"], a.hold["Send"] = true, true
	for range 4 {
		b.put(events.Submissions, events.Record{Value: []byte("garbage")})
	}
	a.run()
	list := held[supervisor.Append](a)
	require.GreaterOrEqual(t, len(list), 2)
	first, second := b.land(list[0].Records...), b.land(list[1].Records...)
	a.todo = without(a.todo, list[0].Generation)
	a.o.Appended(b.now, list[1].Generation, list[1].Batch, second, nil)
	require.Empty(t, held[supervisor.Send](a), "the later answer waits")
	next := a.store.Next()
	a.o.Appended(b.now, list[0].Generation, list[0].Batch, first, nil)
	require.NotEmpty(t, held[supervisor.Send](a))
	require.Greater(t, a.store.Next(), next)
	a.o.Appended(b.now, list[0].Generation, list[0].Batch, first, nil) // an answer that arrives twice
	a.drain()
	require.True(t, a.o.Status().Owning)
}

func TestAGapInTheOffsetsEndsTheEpoch(t *testing.T) {
	t.Parallel()
	for name, offsets := range map[string]func(good []int64) []int64{
		"another writer in between": func(g []int64) []int64 {
			for i := range g {
				g[i]++
			}
			return g
		},
		"below the owner's position": func(g []int64) []int64 {
			for i := range g {
				g[i] -= 2
			}
			return g
		},
		"a gap in the middle":       func(g []int64) []int64 { g[len(g)-1]++; return g },
		"too few":                   func(g []int64) []int64 { return g[1:] },
		"none":                      func([]int64) []int64 { return nil },
		"more offsets than records": func(g []int64) []int64 { return append(g, g[len(g)-1]+1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			a := b.candidate("A").own()
			a.hold["Append"], a.hold["LogRecords"] = true, true
			b.submit("t1", "one", "")
			a.run()
			x := held[supervisor.Append](a)[0]
			next := a.store.Next()
			a.o.Appended(b.now, x.Generation, x.Batch, offsets(b.land(x.Records...)), nil)
			a.drain()
			require.False(t, a.o.Status().Owning)
			require.Equal(t, next, a.store.Next(), "nothing is committed")
			require.Empty(t, a.work())
		})
	}
}

func TestAnOwnerBlindToItsOwnWritesStopsDeciding(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.hold["LogRecords"] = true
	b.submit("t1", "one", "")
	a.run()
	a.pass(11 * time.Second)
	n := len(b.log)
	b.submit("t2", "one", "")
	a.run()
	require.Len(t, b.log, n)
	a.hold["LogRecords"] = false
	a.run()
	require.Equal(t, 2, count[*events.Submitted](b))
}

func TestNothingIsDecidedWhileTheClockIsSuspected(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.o.Suspend(b.now, true, false)
	b.submit("t1", "one", "")
	a.pass(time.Second)
	require.Empty(t, b.names())
	a.o.Suspend(b.now, false, false)
	a.run()
	require.Equal(t, 1, count[*events.Submitted](b))
}

func TestARevokedOwnerWritesNothingMore(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.o.Revoke(b.now)
	b.submit("t1", "one", "")
	a.pass(time.Minute)
	require.Empty(t, b.names())
	require.Equal(t, "idle", a.o.Status().Phase)
	a.stopped = nil
	a.own().run()
	require.Equal(t, 1, count[*events.Submitted](b))
}

func TestAClaimThatIsNeverSeenIsGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A")
	a.hold["Claim"] = true
	a.o.Assign(b.now)
	a.run()
	first := held[supervisor.Claim](a)
	require.Len(t, first, 1)
	a.pass(11 * time.Second)
	a.pass(time.Second)
	again := held[supervisor.Claim](a)
	require.Greater(t, len(again), 1, "it claims again with a new producer")
	require.NotEqual(t, again[0].Record.Value, again[len(again)-1].Record.Value, "with a new ID")
}
