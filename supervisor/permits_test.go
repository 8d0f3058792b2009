package supervisor_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

const oneAtATime = `
workflow: pay
concurrency: {key: "${ input.customer }", max: 1, parked: PARKED}
defaults: {complete_within: 1s, retry: {attempts: 1, then: park}, undo: {retry: {attempts: 1}}}
steps:
  s: {agent: alpha, undo: {}}
`

// payments returns a bench with tasks of one customer, and an owner that has judged them. The limit lives in the partition of the tasks.
func payments(t *testing.T, parked string, ids ...string) (*bench, *speaker) {
	t.Helper()
	b := newBench(t, strings.Replace(oneAtATime, "PARKED", parked, 1))
	a := &speaker{candidate: b.candidate("A").own()}
	for _, id := range ids {
		b.submit(id, "pay", `,"input":{"customer":"c-17"}`)
		a.speak()
	}
	return b, a
}

// speaker is an owner whose records about permits come back to its partition.
type speaker struct {
	*candidate
	spoken int
}

// speak runs the owner until it says nothing more about permits.
func (a *speaker) speak() {
	for a.run(); a.spoken < len(a.sent); a.run() {
		for ; a.spoken < len(a.sent); a.spoken++ {
			if x := a.sent[a.spoken]; x.Kind == events.EffectPermit {
				a.b.put(events.Reports, x.Record)
			}
		}
	}
}

func inside(b *bench) (list []string) {
	s, _, _ := b.read()
	s.Loaded(func(t *events.Task) bool {
		if x, _ := t.RunningStep(); x != nil {
			list = append(list, t.ID)
		}
		return true
	})
	slices.Sort(list)
	return list
}

func TestOneTaskWithTheKeyRunsAtATime(t *testing.T) {
	t.Parallel()
	b, a := payments(t, "hold", "t1", "t2", "t3")
	require.Equal(t, []string{"t1"}, inside(b))
	require.Equal(t, "concurrency/pay/c-17", b.task("t2").Permit.Limit)
	b.submit("other", "pay", `,"input":{"customer":"c-18"}`)
	a.speak()
	b.submit("free", "pay", `,"input":{}`)
	a.speak()
	require.Equal(t, []string{"free", "other", "t1"}, inside(b))
	require.Nil(t, b.task("free").Permit)
	b.done("t1", "s", 1)
	a.speak()
	require.Equal(t, []string{"free", "other", "t2"}, inside(b))
	b.request(events.RequestCancel, "q", "t3") // it waits for nothing then
	a.speak()
	require.Equal(t, events.TaskStateUndone, b.task("t3").State)
	for _, id := range []string{"t2", "other", "free"} {
		b.done(id, "s", 1)
	}
	a.speak()
	s, _, _ := b.read()
	for l := range s.Limits.All() {
		require.Fail(t, "a limit that nobody needs leaves the state", l.Name)
	}
	sameEverywhere(t, b, a.candidate)
}

func TestAParkedTaskHoldsItsPermitOrGivesItBack(t *testing.T) {
	t.Parallel()
	for parked, want := range map[string][]string{"hold": nil, "release": {"t2"}} {
		b, a := payments(t, parked, "t1", "t2")
		b.failed("t1", "s", 1, events.ClassPermanent, events.EffectNone)
		a.speak()
		require.Equal(t, events.TaskStateError, b.task("t1").State)
		require.Equal(t, want, inside(b), parked)
		b.request(events.RequestRetry, "q", "t1")
		a.speak()
		if parked == "hold" {
			require.Equal(t, []string{"t1"}, inside(b))
			continue
		}
		require.Equal(t, []string{"t2"}, inside(b), "it waits again")
		b.done("t2", "s", 1)
		a.speak()
		require.Equal(t, []string{"t1"}, inside(b))
	}
}

// A take-over reads the limit from the log, and an hour later it tells the holder again, which changes nothing.
func TestAPermitOutlivesTheOwnerOfItsLimit(t *testing.T) {
	t.Parallel()
	b, _ := payments(t, "hold", "t1", "t2")
	c := &speaker{candidate: b.candidate("B").own()}
	c.speak()
	require.Equal(t, []string{"t1"}, inside(b))
	b.failed("t1", "s", 1, events.ClassPermanent, events.EffectNone)
	c.speak()
	c.pass(events.RepeatAfter)
	c.speak()
	c.pass(time.Second)
	s, _, _ := b.read()
	require.Equal(t, 0, s.Limits.Get("concurrency/pay/c-17").Free(b.now))
	require.Equal(t, events.PermitStateAsked, b.task("t2").Permit.State)
	require.True(t, last[*events.PermitAsked](b).Repeat, "it asks again")
	b.request(events.RequestTerminate, "q", "t1")
	c.speak()
	require.Equal(t, []string{"t2"}, inside(b))
	sameEverywhere(t, b, c.candidate)
}

// holdLimit sends a request about the limit of the customer.
func (a *speaker) holdLimit(kind, id string) {
	q := events.LimitRequest{ID: id, Limit: "concurrency/pay/c-17", Reason: "why", By: "ada"}
	r, err := events.EncodeLimitRequest(q, kind, events.Subject{ID: id, Source: "/api", Time: 1})
	require.NoError(a.b.t, err)
	a.b.put(events.Reports, r)
	a.speak()
}

// A paused limit gives nobody a permit, across a take-over and even if no task needed it before. Whoever has one keeps it.
func TestAPausedLimitGivesNothingUntilItGoesOn(t *testing.T) {
	t.Parallel()
	b, a := payments(t, "hold")
	a.holdLimit(events.TypeLimitPause, "p1")
	b.submit("t1", "pay", `,"input":{"customer":"c-17"}`)
	a.speak()
	require.Empty(t, inside(b))
	c := &speaker{candidate: b.candidate("B").own()}
	c.speak()
	a = c
	require.Empty(t, inside(b))
	a.holdLimit(events.TypeLimitPause, "p2")
	require.Equal(t, "p1", last[*events.LimitPaused](b).Request, "a limit is paused once")
	a.holdLimit(events.TypeLimitResume, "p3")
	a.pass(time.Second)
	a.speak()
	require.Equal(t, []string{"t1"}, inside(b))

	b.submit("t2", "pay", `,"input":{"customer":"c-17"}`)
	a.speak()
	a.holdLimit(events.TypeLimitPause, "p4")
	b.done("t1", "s", 1)
	a.speak()
	require.Empty(t, inside(b), "what t1 gives back goes to nobody")
	b.request(events.RequestCancel, "q", "t2")
	a.speak()
	s, _, _ := b.read()
	require.Equal(t, "why", s.Limits.Get("concurrency/pay/c-17").Paused.Reason, "a paused limit stays, although no task needs it")
	a.holdLimit(events.TypeLimitResume, "p5")
	s, _, _ = b.read()
	require.Nil(t, s.Limits.Get("concurrency/pay/c-17"))
	sameEverywhere(t, b, a.candidate)
}

func TestARequestAboutALimitThatCannotBeUsedIsRejected(t *testing.T) {
	t.Parallel()
	b, a := payments(t, "hold")
	for name, want := range map[string]string{
		"pay/c-17": "is not the name of a limit", "concurrency/pay": "is not the name of a limit", "concurrency//c": "is not the name of a limit", "concurrency/pay/\n": "is not the name of a limit",
	} {
		r, err := events.EncodeLimitRequest(events.LimitRequest{ID: "x", Limit: name}, events.TypeLimitPause, events.Subject{ID: "x", Source: "/api", Time: 1})
		require.NoError(t, err)
		b.put(events.Reports, r)
		a.speak()
		require.Contains(t, last[*events.InputRejected](b).Detail, want, name)
	}
}

// The alert comes when the limit tells a holder again that has been parked for a quarter of an hour, once each time that it is parked, and only if
// others wait.
func TestAParkedHolderBehindWhichOthersWaitRaisesAnAlert(t *testing.T) {
	t.Parallel()
	b, a := payments(t, "hold", "t1")
	b.failed("t1", "s", 1, events.ClassPermanent, events.EffectNone)
	a.speak()
	alerts := func() (list []supervisor.Alert) {
		for _, x := range a.sent {
			var alert supervisor.Alert
			if x.Kind == events.EffectAlert && json.Unmarshal(x.Record.Value, &alert) == nil && alert.Kind == supervisor.AlertBlocked {
				list = append(list, alert)
			}
		}
		return list
	}
	tell := func() {
		a.pass(events.TellAfter)
		a.speak()
		a.pass(time.Second)
		a.speak()
	}
	tell()
	require.Empty(t, alerts(), "nobody waits")
	b.submit("t2", "pay", `,"input":{"customer":"c-17"}`)
	a.speak()
	tell()
	tell()
	require.Len(t, alerts(), 1)
	alert := alerts()[0]
	require.Equal(t, []any{"t1", "pay", "pay/c-17", b.task("t1").ParkedAt}, []any{alert.Task, alert.Workflow, alert.Limit, alert.Since})
	require.Contains(t, alert.Reason, "tasks that wait for the permit of this parked task: 1")

	b.request(events.RequestRetry, "q", "t1")
	a.speak()
	tell()
	require.Len(t, alerts(), 1, "it is not parked")
	b.failed("t1", "s", 2, events.ClassPermanent, events.EffectNone)
	a.speak()
	tell()
	tell()
	require.Len(t, alerts(), 2)
	sameEverywhere(t, b, a.candidate)
}
