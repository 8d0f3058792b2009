package supervisor_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// lock opens and seals values that are not encrypted. Why says why it does not now, and lacks why it does not open those of a key.
type lock struct {
	why   *events.NoKeyError
	lacks map[string]*events.NoKeyError
	// erased says that the key of all content was erased.
	erased bool
}

func locked(value string) string {
	return string((&events.Sealed{Key: "k", Same: "s", Text: []byte(value)}).Value())
}

func (l *lock) Open(value []byte) ([]byte, error) {
	if l.why != nil {
		return nil, l.why
	}
	if s, ok := events.ParseSealed(value); ok {
		if why := l.lacks[s.Key]; why != nil {
			return nil, why
		}
		if s.Key == "erased" || l.erased {
			return nil, &events.ErasedError{At: 1}
		}
		return s.Text, nil
	}
	var parts map[string]json.RawMessage // some of which are sealed
	if err := json.Unmarshal(value, &parts); err != nil {
		return nil, err
	}
	for name, part := range parts {
		if s, ok := events.ParseSealed(part); ok {
			parts[name] = s.Text
		}
	}
	return json.Marshal(parts)
}

func (l *lock) SealLike(_, value []byte) ([]byte, error) {
	if events.IsSealed(value) {
		return value, nil
	}
	if l.why != nil {
		return nil, l.why
	}
	return (&events.Sealed{Key: "k", Text: value}).Value(), nil
}

const sealedSteps = `
workflow: two
labels: {who: "${ input.who }"}
defaults: {complete_within: 1h, retry: {attempts: 1, then: undo}}
steps:
  first: {agent: alpha, %s undo: {}}
  second: {needs: [first], agent: beta, %s}
`

const failIf = `fail_if: "${ output.v == 2 }",`

// The topic of keys that cannot be read, and a key that the key file lacks.
var (
	unread = &events.NoKeyError{Reason: "the topic of keys cannot be read"}
	absent = &events.NoKeyError{Missing: "abcd", Reason: "seal.key does not hold the key abcd"}
)

func newLocked(t *testing.T, first, second string) (*bench, *candidate, *lock) {
	b, l := newBench(t, fmt.Sprintf(sealedSteps, first, second), oneStep), &lock{}
	a := b.candidate("A", func(c *candidate) { c.cfg.Keys, c.sched = l, scheduler.NewSharedWith(l).New() }).own()
	return b, a, l
}

func (b *bench) submitSealed(id string) { b.submit(id, "two", `,"input":`+locked(`{"who":"ada"}`)) }

func TestASubmissionThatCannotBeOpenedNowWaits(t *testing.T) {
	t.Parallel()
	b, a, l := newLocked(t, failIf, "")
	l.why = unread
	b.submitSealed("t1")
	b.submit("t2", "one", "")
	a.run()
	a.pass(time.Hour)
	require.Empty(t, b.names())
	require.Equal(t, supervisor.Unopened{Inputs: supervisor.PerInput[int]{0, 2}, Reason: unread.Reason}, a.o.Status().Unopened)
	l.why = nil
	a.run()
	require.Empty(t, b.names(), "it is not tried all the time")
	a.pass(time.Second)
	require.Equal(t, "ada", b.task("t1").Labels["who"])
	require.NotNil(t, b.task("t2"))
	require.Zero(t, a.o.Status().Unopened)
	sameEverywhere(t, b, a)
}

// One input must not stop a partition because this node will never have its key. Later ones that need it are not waited for again.
func TestASubmissionDoesNotWaitForeverForAKeyThatTheFileLacks(t *testing.T) {
	t.Parallel()
	b, a, l := newLocked(t, failIf, "")
	l.why = absent
	b.submitSealed("t1")
	b.submit("t2", "one", "")
	a.run()
	a.pass(9 * time.Minute)
	require.Empty(t, b.names())
	a.pass(time.Minute)
	require.Contains(t, last[*events.InputRejected](b).Detail, "does not hold the key abcd")
	require.Equal(t, events.RejectNoKey, last[*events.InputRejected](b).Reason)
	require.NotNil(t, b.task("t2"))
	b.submitSealed("t3")
	a.run()
	require.Equal(t, []string{"Submitted", "StepStarted", "InputRejected"}, b.names()[len(b.names())-3:])
}

// A task waits alone, and its condition, or the input of its step, is evaluated when that is possible: no step fails, and nothing is undone.
func TestATaskWhoseContentCannotBeOpenedNowWaitsAlone(t *testing.T) {
	t.Parallel()
	whole, part := locked(`{"who":"ada"}`), `{"who":`+locked(`"ada"`)+`}`
	for _, c := range []struct{ second, input string }{
		{`if: "${ input.who == 'ada' }"`, whole}, {`with: {who: "${ input.who }"}`, whole}, {`with: {who: "${ input.who }"}`, part},
	} {
		b, a, l := newLocked(t, "", c.second)
		b.submit("t1", "two", `,"input":`+c.input)
		a.run()
		l.why = absent
		b.doneSealed("t1", `{"v":1}`)
		b.submit("t2", "one", "")
		a.run()
		require.Equal(t, []string{"StepCompleted", "Submitted", "StepStarted"}, b.names()[len(b.names())-3:])
		require.Equal(t, supervisor.Unopened{Tasks: 1, Reason: absent.Reason}, a.o.Status().Unopened)
		b.done("t2", "only", 1)
		a.run()
		waiting := b.names()
		a.pass(time.Hour)
		require.Equal(t, waiting, b.names())
		a.restart() // nothing in memory says that the task waits
		a.own()
		a.pass(time.Hour)
		l.why = nil
		a.pass(5 * time.Second)
		started := last[*events.StepStarted](b)
		require.Equal(t, "second", started.Step)
		require.Zero(t, a.o.Status().Unopened)
		b.done("t1", "second", 1)
		a.run()
		require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
		sameEverywhere(t, b, a)
	}
}

func (b *bench) doneSealed(task, output string) {
	b.report(events.Report{Task: task, Run: 1, Step: "first", Operation: events.Do, Attempt: 1, Result: events.ResultCompleted, Output: json.RawMessage(locked(output))})
}

// The report of a step with a fail_if waits, since it cannot be said whether the step failed; if the key file lacks the key, for a minute, and then
// its task alone is parked.
func TestAResultThatCannotBeOpenedNowIsNotJudged(t *testing.T) {
	t.Parallel()
	b, a, l := newLocked(t, failIf, "")
	for _, id := range []string{"t1", "t2"} {
		b.submitSealed(id)
	}
	a.run()
	l.why = unread
	before := b.names()
	b.doneSealed("t1", `{"v":2}`)
	a.run()
	a.pass(10 * time.Minute)
	require.Equal(t, before, b.names())
	l.why = nil
	a.pass(time.Second)
	require.Equal(t, events.ClassCheck, last[*events.StepFailed](b).Error.Class)

	l.why = absent
	before = b.names()
	b.doneSealed("t2", `{"v":1}`)
	a.run()
	a.pass(59 * time.Second)
	require.Equal(t, before, b.names())
	a.pass(time.Second)
	require.Equal(t, events.TaskStateError, b.task("t2").State)
	require.Contains(t, b.task("t2").Reason, "does not hold the key abcd")
}

// What a service reports in clear text is not written in clear text because the key cannot be used now.
func TestAFactThatCannotBeSealedNowIsNotWritten(t *testing.T) {
	t.Parallel()
	b, a, l := newLocked(t, "", "")
	b.submitSealed("t1")
	a.run()
	l.why = unread
	before := b.names()
	b.done("t1", "first", 1)
	a.run()
	a.pass(10 * time.Minute)
	require.Equal(t, before, b.names())
	l.why = nil
	a.pass(time.Second)
	require.True(t, events.IsSealed(last[*events.StepCompleted](b).Output))
}

// Two nodes made a first key of a subject at once: a repeated submission may be sealed with another key, and is a repeat all the same.
func TestARepeatSealedWithAnotherKeyIsNoConflict(t *testing.T) {
	t.Parallel()
	b, a, l := newLocked(t, "", "")
	other := func(text string) string {
		return `,"input":` + string((&events.Sealed{Key: "k2", Same: "s2", Text: []byte(text)}).Value())
	}
	b.submitSealed("t1")
	a.run()
	before := b.names()
	b.submit("t1", "two", other(`{"who": "ada"}`))
	a.run()
	require.Equal(t, before, b.names())
	l.why = unread
	b.submit("t1", "two", other(`{"who":"bob"}`))
	a.run()
	a.pass(time.Hour)
	require.NotContains(t, b.names(), "InputRejected")
	l.why = nil
	a.pass(time.Second)
	require.Equal(t, events.RejectConflict, last[*events.InputRejected](b).Reason)
}

// Progress that cannot be sealed extends the attempt all the same, and holds nothing back. Its value is lost, and the next one is not.
func TestProgressThatCannotBeSealedNowExtendsTheAttempt(t *testing.T) {
	t.Parallel()
	for _, why := range []*events.NoKeyError{unread, absent} {
		b, l := newBench(t, beats, oneStep), &lock{}
		a := b.candidate("A", func(c *candidate) { c.cfg.Keys, c.sched = l, scheduler.NewSharedWith(l).New() }).own()
		b.submit("t1", "w", `,"input":`+locked(`{}`))
		a.run()
		b.beat(a, 1, `{"n":1}`)
		kept := b.task("t1").Step("long").Progress
		require.True(t, events.IsSealed(kept))
		l.why = why
		a.pass(11 * time.Second)
		require.Equal(t, 31*time.Second, b.beat(a, 1, `{"n":2}`))
		require.Equal(t, string(kept), string(b.task("t1").Step("long").Progress))
		require.Zero(t, a.o.Status().Unopened)
		l.why = nil
		a.pass(11 * time.Second)
		require.Equal(t, 42*time.Second, b.beat(a, 1, `{"n":3}`))
		require.NotEqual(t, string(kept), string(b.task("t1").Step("long").Progress))
		require.Equal(t, events.StepStateRunning, b.task("t1").Step("long").State)
	}
}

// A task that waits for a key asks for no permit, and gives back one that it has: others need it, and it may wait for long.
func TestATaskThatWaitsForAKeyHasNoPermit(t *testing.T) {
	t.Parallel()
	for name, lateKey := range map[string]bool{"before it asks": false, "before the grant": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, c, l := newLocked(t, "", `limit: bank, with: {who: "${ input.who }"}`)
			b.define(callsTheBank)
			a := &speaker{candidate: c}
			a.limit(1, 1)
			b.submitSealed("t1")
			a.speak()
			asks := 0
			if lateKey {
				b.doneSealed("t1", `{"v":1}`)
				a.run()
				asks = 1
				l.why = absent
				a.speak()
			} else {
				l.why = absent
				b.doneSealed("t1", `{"v":1}`)
				a.speak()
			}
			require.Empty(t, b.task("t1").StepPermits)
			b.submit("t2", "pay", "")
			a.speak()
			require.Equal(t, []string{"t2"}, inside(b))
			b.done("t2", "s", 1)
			for range 5 {
				a.pass(10 * time.Second)
				a.speak()
			}
			require.Equal(t, asks+1, count[*events.PermitAsked](b), "it does not ask while it waits")
			l.why = nil
			a.pass(5 * time.Second)
			a.speak()
			require.Equal(t, []string{"t1"}, inside(b))
			sameEverywhere(t, b, c)
		})
	}
}

// While a submission waits for a key, a partition in which nothing else happens records how far it has judged its reports.
func TestAPartitionWhoseSubmissionWaitsForAKeyPasses(t *testing.T) {
	t.Parallel()
	b, a, l := newLocked(t, failIf, "")
	b.submit("t0", "one", "")
	a.run()
	b.done("t0", "only", 1)
	a.run()
	l.why = unread
	b.submitSealed("t1")
	a.run()
	b.done("t0", "only", 1) // a repeat, which is no fact
	a.run()
	a.pass(time.Minute)
	s, _, _ := b.read()
	require.Equal(t, int64(2), s.Partition.Inputs[events.Reports].Next)
	require.Equal(t, int64(1), s.Partition.Inputs[events.Submissions].Next)
	passes := count[*events.InputsPassed](b)
	a.pass(time.Minute)
	require.Equal(t, passes, count[*events.InputsPassed](b))
	l.why = nil
	a.pass(time.Second)
	require.NotNil(t, b.task("t1"))
	sameEverywhere(t, b, a)
}

// An operator retries a task whose output fails, while the output cannot be evaluated. It ends without one as soon as it can be.
func TestARetryEndsATaskWhoseOutputFailsAfterItWaitedForAKey(t *testing.T) {
	t.Parallel()
	b, a, l := newLocked(t, "", "")
	b.define("workflow: out\nsteps:\n  only: {agent: alpha, pivot: true}\noutput: \"${ input.x.y }\"\n")
	b.submit("t1", "out", `,"input":`+locked(`{"x":null}`))
	a.run()
	b.done("t1", "only", 1)
	a.run()
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	l.why = unread
	b.request(events.RequestRetry, "r1", "t1")
	a.run()
	a.pass(5 * time.Second)
	require.Equal(t, "TaskReopened", b.names()[len(b.names())-1])
	l.why = nil
	a.pass(5 * time.Second)
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	sameEverywhere(t, b, a)
}

// Reports that wait now and then, because the topic of keys cannot be read for a moment, do not make a submission wait longer. And a report waits its own
// minute, even if a submission has waited for the same key for long.
func TestHowLongAnInputWaitsIsItsOwn(t *testing.T) {
	t.Parallel()
	b, a, l := newLocked(t, failIf, "")
	l.lacks = map[string]*events.NoKeyError{}
	lockedBy := func(key, value string) string {
		return string((&events.Sealed{Key: key, Same: "s", Text: []byte(value)}).Value())
	}
	for n := range 6 {
		b.submitSealed(fmt.Sprint("t", n))
	}
	a.run()
	report := func(n int, key string) {
		b.report(events.Report{Task: fmt.Sprint("t", n), Run: 1, Step: "first", Operation: events.Do, Attempt: 1, Result: events.ResultCompleted, Output: json.RawMessage(lockedBy(key, `{"v":1}`))})
		a.run()
	}
	l.lacks["other"] = absent
	b.submit("late", "two", `,"input":`+lockedBy("other", `{"who":"ada"}`))
	a.run()
	for n := range 3 {
		l.lacks["k2"] = unread
		report(n, "k2")
		a.pass(3 * time.Minute)
		delete(l.lacks, "k2")
		a.pass(time.Second)
		require.Equal(t, "second", last[*events.StepStarted](b).Step)
	}
	require.NotContains(t, b.names(), "InputRejected")
	report(3, "other")
	a.pass(30 * time.Second)
	require.NotEqual(t, events.TaskStateError, b.task("t3").State, "the report has not waited for a minute")
	a.pass(40 * time.Second)
	require.Equal(t, events.TaskStateError, b.task("t3").State)
	require.Contains(t, b.names(), "InputRejected", "the submission has waited for ten minutes")
}

func TestASubmissionThatCanNeverBeOpenedIsRefusedForItsKey(t *testing.T) {
	t.Parallel()
	b, a, _ := newLocked(t, "", "")
	b.submit("t1", "two", `,"input":`+string((&events.Sealed{Key: "erased", Same: "s", Text: []byte(`{}`)}).Value()))
	a.run()
	require.Equal(t, events.RejectNoKey, last[*events.InputRejected](b).Reason)
	require.Contains(t, last[*events.InputRejected](b).Detail, "/input: the content was erased on")
}

// The list of a fan-out does not outlive the erasure of its content in the memory of an owner.
func TestAnItemOfErasedContentIsNeitherDoneNorUndone(t *testing.T) {
	t.Parallel()
	const fan = "workflow: w\nsteps: {send: {agent: alpha, for: {each: \"${ input.ids }\", as: id, parallel: 1}, with: {id: \"${ id }\"}, retry: {then: undo}, undo: {with: {id: \"${ id }\"}}}}"
	b, l := newBench(t, fan), &lock{}
	a := b.candidate("A", func(c *candidate) { c.cfg.Keys, c.sched = l, scheduler.NewSharedWith(l).New() }).own()
	b.submit("t1", "w", `,"input":`+locked(`{"ids":["ada","bob"]}`))
	a.run()
	l.erased = true
	latest(a)
	b.done("t1", "send[0]", 1)
	a.run()
	require.Equal(t, events.StepStateFailed, b.task("t1").Step("send[1]").State)
	require.Equal(t, events.StepStateUndoFailed, b.task("t1").Step("send[0]").State)
	require.Empty(t, latest(a))
}
