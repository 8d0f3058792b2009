package supervisor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// Definitions are in memory until the store holds them. An owner that compiles one again reads it from there.
func TestAnOwnerKeepsNoBodyOfAStoredDefinition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.candidate("A").own()
	for i := range 20 {
		b.define(strings.Replace(oneStep, "workflow: one", fmt.Sprintf("workflow: w%d\noutput: %s", i, strings.Repeat("x", 5000)), 1))
		b.submit(fmt.Sprint("t", i), fmt.Sprint("w", i), "")
	}
	held := func(c *candidate) (bytes int) {
		for i := range b.versions {
			bytes += c.o.DefinitionBytes(b.versions[i].Hash)
		}
		return bytes
	}
	a.run()
	a.pass(200 * time.Millisecond)
	require.Zero(t, held(a))

	// The next owner has compiled nothing, and the definitions topic is not asked again.
	next := b.candidate("B", func(c *candidate) { c.sched, c.store = scheduler.New(), a.store }).own()
	require.Zero(t, held(next))
	next.hold["AskCatalog"] = true
	for i := range 20 {
		b.done(fmt.Sprint("t", i), "only", 1)
	}
	next.run()
	for i := range 20 {
		require.Equal(t, events.TaskStateProcessed, b.task(fmt.Sprint("t", i)).State)
	}
	require.Zero(t, held(next))
}

// withoutBodies is a store that returns no body of a definition while fails is set.
type withoutBodies struct {
	*sim.Store
	fails *bool
}

func (s withoutBodies) Snapshot() (events.Snapshot, error) {
	snap, err := s.Store.Snapshot()
	load := snap.Load
	snap.Load = func(k events.Kind, id string) ([]byte, error) {
		if *s.fails {
			return nil, errors.New("input/output error")
		}
		return load(k, id)
	}
	return snap, err
}

// An owner whose store does not return the body of a definition stops, as it does for a task. The next one goes on.
func TestNoTaskIsParkedBecauseABodyCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(b *bench, c *candidate){
		"report":  func(b *bench, _ *candidate) { b.done("t", "only", 1) },
		"failure": func(b *bench, _ *candidate) { b.failed("t", "only", 1, events.ClassRetryable, events.EffectNone) },
		"timeout": func(_ *bench, c *candidate) { c.pass(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			a := b.candidate("A").own()
			b.submit("t", "one", "")
			a.run()
			a.pass(200 * time.Millisecond)
			fails := true
			c := b.candidate("B", func(c *candidate) {
				c.sched, c.store = scheduler.New(), a.store
				c.through = func(s *sim.Store) supervisor.Store { return withoutBodies{s, &fails} }
			}).own()
			facts := len(b.names())
			next(b, c)
			c.run()
			c.pass(time.Second)
			require.ErrorContains(t, c.stopped, "input/output error")
			require.Len(t, b.names(), facts, "%v", b.names())

			fails, c.stopped = false, nil
			c.o.Revoke(b.now)
			c.run()
			c.own().pass(time.Second)
			require.Greater(t, len(b.names()), facts)
			require.Zero(t, count[*events.TaskParked](b))
		})
	}
}

// A definition that a node cannot read from its disk is not asked for in a loop: its submissions wait, and are looked at again now and then.
func TestADefinitionThatCannotBeReadIsAskedForOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.versions[0].Unread = true
	a := b.candidate("A").own()
	a.hold["AskCatalog"] = true
	b.submit("t1", "one", "")
	a.run()
	q := held[supervisor.AskCatalog](a)[0]
	a.todo = nil
	a.o.Definitions(b.now, q.Generation, q.Question, leveled{b.versions, b.level}, nil)
	a.run()
	require.Empty(t, held[supervisor.AskCatalog](a))
	require.Empty(t, b.names())
	b.versions[0].Unread = false
	a.pass(time.Second)
	require.NotNil(t, b.task("t1"))
}
