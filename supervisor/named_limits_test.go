package supervisor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

const callsTheBank = `
workflow: pay
defaults: {complete_within: 2m, retry: {attempts: 1, then: undo}, undo: {retry: {attempts: 1}}}
steps:
  s: {agent: alpha, limit: bank, undo: {}}
`

// bank is the limit of these tests.
var bank = events.LimitKey("bank")

// bankers returns a bench with tasks whose steps share a limit, and an owner that has judged them.
func bankers(t *testing.T, most int, ids ...string) (*bench, *speaker) {
	t.Helper()
	b := newBench(t, callsTheBank)
	a := &speaker{candidate: b.candidate("A").own()}
	if most > 0 {
		a.limit(1, most)
	}
	for _, id := range ids {
		b.submit(id, "pay", "")
		a.speak()
	}
	return b, a
}

// limit applies the limit.
func (a *speaker) limit(offset int64, most int) { a.rated(offset, most, "") }

// rated applies the limit with a rate.
func (a *speaker) rated(offset int64, most int, rate string) {
	supervisor.SetLimits(a.o, a.b.now, []supervisor.LimitRecord{{Limit: bank, Offset: offset, Max: most, Rate: rate}})
	a.speak()
}

func (b *bench) limitState() *events.Limit {
	s, _, _ := b.read()
	return s.Limits.Get(bank)
}

func TestAsManyAttemptsAsTheLimitSaysRunAtATime(t *testing.T) {
	t.Parallel()
	b, a := bankers(t, 2, "t1", "t2", "t3", "t4")
	require.Equal(t, []string{"t1", "t2"}, inside(b))
	require.Len(t, b.limitState().Waiting(), 2)
	waits := slices.Collect(events.WaitingFor(b.task("t3"), b.now))
	require.Equal(t, []events.WaitReason{{Step: "s", Kind: events.WaitingLimit, Since: b.task("t3").StepPermits[0].At}}, waits)
	b.done("t1", "s", 1)
	a.speak()
	require.Equal(t, []string{"t2", "t3"}, inside(b))
	require.Empty(t, b.task("t1").StepPermits)
	for _, id := range []string{"t2", "t3", "t4"} {
		b.done(id, "s", 1)
		a.speak()
	}
	require.Empty(t, slices.Collect(b.limitState().Permits()), "the limit stays, since its object does")
	sameEverywhere(t, b, a.candidate)
}

// A limit that nobody has applied yet gives nothing: the definitions may be read later than the tasks.
func TestALimitGivesAsManyPermitsAsItsObjectSaysNow(t *testing.T) {
	t.Parallel()
	b, a := bankers(t, 0, "t1", "t2", "t3")
	require.Empty(t, inside(b))
	a.limit(1, 1)
	a.pass(time.Second)
	a.speak()
	require.Equal(t, []string{"t1"}, inside(b))
	a.limit(2, 3)
	a.pass(time.Second)
	a.speak()
	require.Equal(t, []string{"t1", "t2", "t3"}, inside(b))
	a.limit(1, 9)
	require.Equal(t, 3, b.limitState().Max, "an older record changes nothing")
	a.limit(3, 1)
	b.done("t1", "s", 1)
	b.submit("t4", "pay", "")
	a.speak()
	require.Equal(t, []string{"t2", "t3"}, inside(b), "those that have permits keep them")
	a.limit(4, 0)
	for _, id := range []string{"t2", "t3"} {
		b.done(id, "s", 1)
		a.speak()
	}
	require.Empty(t, inside(b), "a deleted limit gives nothing")
	c := &speaker{candidate: b.candidate("B").own()}
	c.limit(5, 1)
	c.pass(time.Second)
	c.speak()
	require.Equal(t, []string{"t4"}, inside(b))
	b.done("t4", "s", 1)
	c.limit(6, 0)
	c.speak()
	require.Nil(t, b.limitState())
	sameEverywhere(t, b, c.candidate)
}

// elapse lets time pass in steps, so that what is due at its end is decided.
func (a *speaker) elapse(d time.Duration) {
	for _, part := range []time.Duration{d, 0, time.Second} {
		a.pass(part)
		a.speak()
	}
}

func TestAPermitOfAnAttemptInDoubtEndsWithItsQuietTime(t *testing.T) {
	t.Parallel()
	b, a := bankers(t, 1, "t1", "t2", "t3")
	a.elapse(2 * time.Minute)
	require.Equal(t, events.TaskStateUndoing, b.task("t1").State)
	require.Empty(t, inside(b), "a request of the attempt may still land")
	quiet := b.task("t1").QuietAt
	require.NotZero(t, quiet)
	a.elapse(quiet.Sub(b.now))
	require.Equal(t, []string{"t2"}, inside(b))
	b.done("t2", "s", 1)
	a.speak()
	require.Equal(t, []string{"t1"}, inside(b), "the undo goes before t3, which has waited longer")
	b.undone("t1", "s", 1)
	a.speak()
	require.Equal(t, []string{"t3"}, inside(b))
	sameEverywhere(t, b, a.candidate)
}

// The permit of an undo whose outcome is unknown is kept as well, although no undo waits for an undo.
func TestAnUndoInDoubtKeepsItsPermitForAWhile(t *testing.T) {
	t.Parallel()
	b, a := bankers(t, 1, "t1")
	b.failed("t1", "s", 1, events.ClassPermanent, events.EffectDoneUnknown)
	a.speak()
	require.Equal(t, []string{"t1"}, inside(b))
	b.submit("t2", "pay", "")
	a.speak()
	a.elapse(2 * time.Minute)
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	require.Empty(t, inside(b))
	quiet := b.task("t1").StepsQuietAt
	require.NotZero(t, quiet)
	a.elapse(quiet.Sub(b.now))
	require.Equal(t, []string{"t2"}, inside(b))
	sameEverywhere(t, b, a.candidate)
}

func TestAPermitThatNoAttemptNeedsGoesBack(t *testing.T) {
	t.Parallel()
	for _, verb := range []events.Verb{events.RequestPause, events.RequestCancel, events.RequestTerminate} {
		b, a := bankers(t, 1, "t1", "t2", "t3")
		b.request(verb, "q", "t2") // it waits
		a.speak()
		require.Empty(t, b.task("t2").StepPermits, verb)
		require.Len(t, b.limitState().Waiting(), 1, verb)
		b.done("t1", "s", 1)
		a.speak()
		require.Equal(t, []string{"t3"}, inside(b), verb)
		sameEverywhere(t, b, a.candidate)
	}
	b, a := bankers(t, 1, "t1")
	a.o.SetOffers(b.now, map[string]supervisor.Offer{})
	b.submit("t2", "pay", "")
	a.speak()
	require.Empty(t, b.task("t2").StepPermits, "it asks last: no instance of its agent is there")
	b.done("t1", "s", 1)
	a.speak()
	require.Empty(t, slices.Collect(b.limitState().Permits()))
}

func TestAPausedNamedLimitGivesNothing(t *testing.T) {
	t.Parallel()
	b, a := bankers(t, 1, "t1", "t2")
	hold := func(kind, id string) {
		r, err := events.EncodeLimitRequest(events.LimitRequest{ID: id, Limit: bank, By: "ada"}, kind, events.Subject{ID: id, Source: "/api", Time: 1})
		require.NoError(t, err)
		b.put(events.Reports, r)
		a.speak()
	}
	hold(events.TypeLimitPause, "p1")
	a.limit(2, 5)
	b.done("t1", "s", 1)
	a.pass(time.Second)
	a.speak()
	require.Empty(t, inside(b), "neither a larger limit nor a permit that is free ends the pause")
	hold(events.TypeLimitResume, "p2")
	a.pass(time.Second)
	a.speak()
	require.Equal(t, []string{"t2"}, inside(b))
	sameEverywhere(t, b, a.candidate)
}

// An attempt that has no answer asks again after an hour, with the same link.
func TestAnAttemptAsksAgain(t *testing.T) {
	t.Parallel()
	b, a := bankers(t, 0)
	b.submit("t1", "pay", `,"priority":3`)
	a.run() // its ask is lost
	a.spoken = len(a.sent)
	a.limit(1, 1)
	require.Empty(t, inside(b))
	a.elapse(events.RepeatAfter)
	require.Equal(t, []string{"t1"}, inside(b))
	ask := last[*events.PermitAsked](b)
	require.True(t, ask.Repeat)
	require.Equal(t, 3, ask.Priority)
	require.Equal(t, events.Link{Task: "t1", Incarnation: b.task("t1").Incarnation, Run: 1, Path: "s", Operation: events.Do, N: 1}, ask.Link)
	sameEverywhere(t, b, a.candidate)
}

// With a rate, the attempts of a limit start one after the other, and the next owner goes on where this one stopped.
func TestAttemptsStartNoFasterThanTheRateSays(t *testing.T) {
	t.Parallel()
	b, a := bankers(t, 0)
	a.rated(1, 0, "6/m")
	for _, id := range []string{"t1", "t2", "t3", "t4"} {
		b.submit(id, "pay", "")
		a.speak()
	}
	require.Equal(t, []string{"t1"}, inside(b))
	a.elapse(8 * time.Second)
	require.Equal(t, []string{"t1"}, inside(b))
	a.elapse(time.Second)
	require.Equal(t, []string{"t1", "t2"}, inside(b), "one in ten seconds, although nothing has ended")
	next := &speaker{candidate: b.candidate("B").own()}
	next.elapse(7 * time.Second)
	require.Equal(t, []string{"t1", "t2"}, inside(b))
	next.elapse(time.Second)
	require.Equal(t, []string{"t1", "t2", "t3"}, inside(b))
	next.rated(2, 0, "60/s")
	next.elapse(time.Second)
	require.Equal(t, []string{"t1", "t2", "t3", "t4"}, inside(b), "another rate holds at once")
	sameEverywhere(t, b, next.candidate)
}
