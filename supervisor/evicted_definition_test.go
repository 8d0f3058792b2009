package supervisor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// Definitions are in memory until the store holds them. An owner that compiles one again reads it from there.
func TestAnOwnerKeepsNoBodyOfAStoredDefinition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.candidate("A").own()
	for i := range 20 {
		b.define(strings.Replace(oneStep, "workflow: one", fmt.Sprintf("workflow: w%d\ndescription: %s", i, strings.Repeat("x", 5000)), 1))
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
