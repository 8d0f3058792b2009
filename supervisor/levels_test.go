package supervisor_test

import (
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// build makes a candidate one of a build that understands levels up to the given one, in a namespace of a level.
func build(maxLevel, level int) func(*candidate) {
	return func(c *candidate) { c.cfg.MaxLevel, c.cfg.Level = maxLevel, level }
}

// needs makes the latest definition need a level.
func (b *bench) needs(level int) { b.versions[len(b.versions)-1].Level = level }

// tooOld requires that a candidate gave the partition up because of its build.
func (c *candidate) tooOld() {
	c.b.t.Helper()
	require.ErrorIs(c.b.t, c.stopped, events.ErrReaderTooOld)
	require.ErrorContains(c.b.t, c.stopped, "this takes level 2, and this build understands level 1: upgrade this node")
	require.False(c.b.t, c.o.Status().Owning)
}

// The barrier comes before the definition that needs it, and only once. Another epoch adds none.
func TestTheBarrierComesBeforeWhatNeedsIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.needs(2)
	a := b.candidate("A", build(2, 1)).own()
	require.NotContains(t, b.names(), "VersionBarrier", "the namespace has no level that needs it")
	b.level = 2 // which the owner learns with the definitions
	b.submit("t1", "one", "")
	a.run()
	b.submit("t2", "one", "")
	a.run()
	_, accepted, _ := b.read()
	names := ""
	for _, f := range accepted {
		names += string(f.Body.Name()) + " "
	}
	require.Equal(t, 1, strings.Count(names, "VersionBarrier"), names)
	require.Less(t, strings.Index(names, "VersionBarrier"), strings.Index(names, "DefinitionAdopted"), names)
	b.candidate("B", build(2, 2)).own()
	require.Equal(t, 1, strings.Count(strings.Join(b.names(), " "), "VersionBarrier"))
	require.Equal(t, events.TaskStateProcessing, b.task("t1").State)
}

// An owner hears of the level while nothing else happens. A lower one, heard late, changes nothing.
func TestAnOwnerRaisesItsBarrier(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", build(2, 1)).own()
	a.o.SetSettings(b.now, a.cfg.Settings, 0, 2)
	a.run()
	a.o.SetSettings(b.now, a.cfg.Settings, 0, 1)
	a.run()
	require.Equal(t, 1, strings.Count(strings.Join(b.names(), " "), "VersionBarrier"))
	s, _, _ := b.read()
	require.Equal(t, 2, s.Partition.Reader)
}

// A node of an older build does not own a partition behind the barrier: it parks no task that a newer definition made. A newer node then
// goes on.
func TestANodeBelowTheBarrierLeavesTheTasksAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.needs(2)
	b.level = 2
	a := b.candidate("A", build(2, 2)).own()
	b.submit("t1", "one", "")
	a.run()
	before := len(b.log)
	old := b.candidate("B", build(1, 1))
	old.o.Assign(b.now)
	old.run()
	old.tooOld()
	require.Len(t, b.log, before)
	b.report(completed(a.requests()[0]))
	b.candidate("C", build(2, 2)).own().run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
}

// A node of an older build gives its partition up as soon as it hears of the level, and rejects nothing that it does not understand. It
// does not claim again.
func TestANodeBelowTheLevelGivesUp(t *testing.T) {
	t.Parallel()
	for name, hears := range map[string]func(b *bench, c *candidate){
		"by itself":               func(b *bench, c *candidate) { c.o.SetSettings(b.now, c.cfg.Settings, 0, 2) },
		"with a newer definition": func(b *bench, _ *candidate) { b.level = 2; b.needs(2); b.submit("t1", "one", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			old := b.candidate("A", build(1, 1)).own()
			hears(b, old)
			old.run()
			old.tooOld()
			require.NotContains(t, b.names(), "InputRejected")
			before := len(b.log)
			old.o.Revoke(b.now)
			old.stopped = nil
			old.o.SetSettings(b.now, old.cfg.Settings, 1, 1) // settings that were read before the level
			old.o.Assign(b.now)
			old.run()
			old.tooOld()
			require.Len(t, b.log, before, "it does not claim")
		})
	}
}

// A definition that was applied above the level of the namespace is of no use, to any build.
func TestADefinitionAboveTheLevelIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.needs(2)
	a := b.candidate("A", build(2, 1)).own()
	b.submit("t1", "one", "")
	a.run()
	require.Equal(t, []string{"InputRejected"}, b.names())
	_, accepted, _ := b.read()
	rejected := accepted[len(accepted)-1].Body.(*events.InputRejected)
	require.Equal(t, events.RejectUnknownWorkflow, rejected.Reason)
	require.Equal(t, `version 1 of workflow "one" needs level 2; the namespace has level 1`, rejected.Detail)
}

// growing is a catalog in which a newer definition appears, with the level that it needs, while it is looked up.
type growing struct {
	versions
	level *int
}

func (c growing) Level() int { return *c.level }

func (c growing) Current(name string) (supervisor.Version, bool) {
	*c.level = 2
	return c.versions.Current(name)
}

func TestADefinitionThatJustAppearedBringsItsLevel(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.needs(2)
	a := b.candidate("A", build(2, 1)).own()
	a.hold["AskCatalog"] = true
	b.submit("t1", "one", "")
	a.run()
	asks := held[supervisor.AskCatalog](a)
	require.Len(t, asks, 1)
	level := 1
	a.o.Definitions(b.now, asks[0].Generation, asks[0].Question, growing{b.versions, &level}, nil)
	a.run()
	require.Equal(t, events.TaskStateProcessing, b.task("t1").State)
}
