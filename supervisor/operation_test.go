package supervisor_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

const twoOperations = `
workflow: pay
defaults: {complete_within: 1h, retry: {attempts: 1, then: undo}}
steps:
  hold: {agent: bank, operation: authorize, undo: {}}
  charge: {agent: bank, operation: capture, needs: [hold]}
`

// A step starts only while an instance offers the operation that it names, and the undo of that operation undoes it.
func TestStepsWaitForTheOperationOfTheirAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoOperations)
	a := b.candidate("A").own()
	offer := func(of supervisor.Offer, functions map[string]supervisor.Directions) {
		of.Window, of.Functions = 8, functions
		a.o.SetOffers(b.now, map[string]supervisor.Offer{"bank": of})
	}
	offer(supervisor.Offer{Do: true, Undo: true}, map[string]supervisor.Directions{"capture": {Do: true, Undo: true}, "authorize": {Undo: true}})
	b.submit("t0", "pay", "")
	a.run()
	since := b.now
	a.pass(10 * time.Minute)
	require.Nil(t, b.task("t0").Step("hold"))
	require.Equal(t, []events.Missing{{Agent: "bank", Function: "authorize", Operation: events.Do, Since: since}}, a.o.Status().Missing)

	offer(supervisor.Offer{}, map[string]supervisor.Directions{"authorize": {Do: true}})
	a.run()
	sent := a.sentTo("work.bank")
	require.Len(t, sent, 1)
	w, _, err := events.DecodeWork(&sent[0])
	require.NoError(t, err)
	require.Equal(t, events.Call{Agent: "bank", Function: "authorize", Operation: events.Do}, w.Call())
	b.done("t0", "hold", 1)
	a.run()
	require.Nil(t, b.task("t0").Step("charge"), "nobody offers capture")
	require.Equal(t, "capture", a.o.Status().Missing[0].Function)

	offer(supervisor.Offer{}, map[string]supervisor.Directions{"capture": {Do: true}})
	a.run()
	require.Equal(t, "capture", b.task("t0").Step("charge").Function)
	b.failed("t0", "charge", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	require.Nil(t, b.task("t0").Step("hold").Undo, "nobody offers the undo of authorize")
	offer(supervisor.Offer{}, map[string]supervisor.Directions{"authorize": {Undo: true}})
	a.run()
	require.Equal(t, "authorize", b.task("t0").Step("hold").Undo.Function)
	require.Empty(t, a.o.Status().Missing)
}

// The operations of an agent share its window, and the tasks that came first go first.
func TestTheOperationsOfAnAgentShareItsWindow(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoOperations, "\nworkflow: capture\nsteps:\n  charge: {agent: bank, operation: capture}\n")
	a := b.candidate("A").own()
	all := map[string]supervisor.Directions{"authorize": {Do: true, Undo: true}, "capture": {Do: true}}
	a.o.SetOffers(b.now, map[string]supervisor.Offer{"bank": {Window: 2, Functions: all}})
	for _, id := range []string{"t0", "t1", "t2", "t3"} {
		b.submit(id, map[bool]string{true: "capture", false: "pay"}[id == "t1" || id == "t3"], "")
		a.run()
		a.pass(time.Second)
	}
	require.NotNil(t, b.task("t0").Step("hold"))
	require.NotNil(t, b.task("t1").Step("charge"))
	require.Nil(t, b.task("t2").Step("hold"))
	require.Nil(t, b.task("t3").Step("charge"))
	b.done("t1", "charge", 1)
	a.run()
	require.NotNil(t, b.task("t2").Step("hold"), "it came before t3")
	require.Nil(t, b.task("t3").Step("charge"))
}
