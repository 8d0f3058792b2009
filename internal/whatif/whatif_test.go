package whatif_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/internal/whatif"
	"github.com/stretchr/testify/require"
)

var (
	worlds     = flag.Int("whatif.worlds", 20, "how many worlds TestAnEstimateContainsWhatHappened makes")
	worldTasks = flag.Int("whatif.tasks", 120, "how many tasks each of them has")
	draws      = flag.Int("whatif.draws", 30, "how often each is drawn")
	firstWorld = flag.Int("whatif.seed", 1, "the seed of the first")
)

// policyA gives up soon, and policyB tries for longer. The steps are the same.
const (
	policyA = `
workflow: order
defaults: {complete_within: 3s, retry: {attempts: 3, backoff: 500ms, factor: 2, then: undo}}
steps:
  stock: {agent: stock, undo: {retry: {attempts: 2, backoff: 1s}}}
  card: {agent: card, needs: [stock], with: {order: "${ input.order }", stock: "${ steps.stock.output.id }"}, undo: {}}
  ship: {agent: ship, needs: [card], pivot: true, retry: {attempts: 4, backoff: 1s, then: park}}
output: "${ steps.ship.output.id }"
`
	policyB = `
workflow: order
defaults: {complete_within: 3s, retry: {attempts: 4, backoff: 2s, factor: 2, then: undo}, cool_down: {wait: 25s, times: 1}}
steps:
  stock: {agent: stock, undo: {retry: {attempts: 4, backoff: 2s}}}
  card: {agent: card, needs: [stock], with: {order: "${ input.order }", stock: "${ steps.stock.output.id }"}, undo: {}}
  ship: {agent: ship, needs: [card], pivot: true, retry: {attempts: 3, backoff: 5s, then: park}, cool_down: {wait: 1m, times: 2}}
output: "${ steps.ship.output.id }"
`
)

// The point of it all: of a history under one policy, what another would have done is estimated, and then compared with what the other really did in the same
// world. An interval from the 5th to the 95th percentile is right in nine of ten worlds. Half of the worlds have the patient policy first.
func TestAnEstimateContainsWhatHappened(t *testing.T) {
	if testing.Short() {
		t.Skip("makes many worlds: go test ./internal/whatif -run EstimateContains")
	}
	t.Parallel()
	missed := map[events.TaskState][]uint64{}
	for i := range *worlds {
		seed := uint64(*firstWorld + i)
		from, to := policyA, policyB
		if i%2 == 1 {
			from, to = to, from
		}
		history, truth := play(t, seed, *worldTasks, from), play(t, seed, *worldTasks, to)
		rep, err := whatif.Run(t.Context(), whatif.Config{Log: logOf(history.Log), Topic: "events", Policy: parse(t, to), Draws: *draws, Seed: seed, Dir: t.TempDir()})
		require.NoError(t, err)
		require.True(t, rep.Calibration.Reproduces, "seed %d: %+v", seed, rep.Calibration)
		was, is := history.ends(), truth.ends()
		for s, at := range rep.Estimate.Ends {
			if n := float64(is[s]); n < at.Low || n > at.High {
				missed[s] = append(missed[s], seed)
			}
			t.Logf("seed %d: %-9s was %3d, is %3d, estimate %v .. %v", seed, s, was[s], is[s], at.Low, at.High)
		}
		t.Logf("seed %d: the same end under its own policy %.4f, unknown %v, taken %.2f", seed, rep.Calibration.SameEnd, rep.Estimate.Unknown, rep.Estimate.Taken)
	}
	for s, seeds := range missed {
		t.Logf("%s is outside of the interval with the seeds %v", s, seeds)
		require.LessOrEqual(t, len(seeds), *worlds/10, "%s", s)
	}
}

// small is a history for tests that need no accuracy.
func small(t *testing.T) *world { return play(t, 7, 40, policyA) }

func run(t *testing.T, cfg whatif.Config) *whatif.Report {
	t.Helper()
	cfg.Topic, cfg.Dir = "events", t.TempDir()
	cfg.Draws = max(cfg.Draws, 4)
	rep, err := whatif.Run(t.Context(), cfg)
	require.NoError(t, err)
	return rep
}

// Under the policy that was in force, the estimate is history: no answer is drawn, and no task ends otherwise.
func TestTheSamePolicyChangesNothing(t *testing.T) {
	t.Parallel()
	history := small(t)
	rep := run(t, whatif.Config{Log: logOf(history.Log), Policy: parse(t, policyA)})
	require.InDelta(t, 1, rep.Calibration.SameEnd, 0)
	require.Zero(t, rep.Calibration.Attempts)
	require.InDelta(t, 1, rep.Estimate.Taken, 0)
	require.Empty(t, rep.Estimate.Changed)
	for s, n := range history.ends() {
		require.Equal(t, whatif.Interval{History: float64(n), Low: float64(n), High: float64(n)}, rep.Estimate.Ends[s], s)
	}
}

// The same log, policy, draws and seed give the same bytes, whatever the goroutines do; another seed gives others.
func TestARunIsAFunctionOfItsInput(t *testing.T) {
	t.Parallel()
	history := small(t)
	text := func(seed uint64) string {
		var lines bytes.Buffer
		rep, err := json.Marshal(run(t, whatif.Config{Log: logOf(history.Log), Policy: parse(t, policyB), Seed: seed, Tasks: &lines}))
		require.NoError(t, err)
		require.Equal(t, 40, strings.Count(lines.String(), "\n"))
		return string(rep) + lines.String()
	}
	first := text(1)
	require.Equal(t, first, text(1))
	require.NotEqual(t, first, text(2))
}

// A history that the replay does not reproduce gets no estimate: here some failures that no retry helps against were retried, and the task was processed, as if
// another engine had decided.
func TestAHistoryThatIsNotReproducedIsRefused(t *testing.T) {
	t.Parallel()
	history := small(t)
	body := parse(t, policyA)
	changed := map[string]bool{}
	for i, f := range history.Facts {
		b, ok := f.Body.(*events.StepFailed)
		if !ok || changed[f.Task] {
			continue
		}
		if task, err := history.State.Task(f.Task); err != nil || task.State != events.TaskStateProcessed {
			continue
		}
		lie := *b
		lie.Error.Class = events.ClassPermanent
		wrong := *f
		wrong.Body = &lie
		r, err := events.EncodeFact(&wrong, 0, "sagalog/test")
		require.NoError(t, err)
		r.Offset = history.Log[i].Offset
		history.Log[i] = r
		changed[f.Task] = true
	}
	require.Greater(t, len(changed), 2)
	rep := run(t, whatif.Config{Log: logOf(history.Log), Policy: body})
	require.InDelta(t, 1-float64(len(changed))/40, rep.Calibration.SameEnd, 1e-9)
	require.False(t, rep.Calibration.Reproduces)
	require.Nil(t, rep.Estimate)
	require.NotEmpty(t, rep.Calibration.Differences)
}

// Tasks that had not ended count as not reproduced: those that take long would be missing otherwise.
func TestTasksThatHadNotEndedCount(t *testing.T) {
	t.Parallel()
	history := small(t)
	cut := logOf(history.Log[:len(history.Log)*3/4])
	rep := run(t, whatif.Config{Log: cut, Policy: parse(t, policyA)})
	require.Len(t, rep.Calibration.NotReplayed, 1)
	open := rep.Calibration.NotReplayed[0]
	require.Equal(t, whatif.Reason("it had not ended"), open.Reason)
	require.True(t, open.Counts)
	require.NotZero(t, open.Tasks)
	require.InDelta(t, 1-float64(open.Tasks)/float64(rep.Calibration.Tasks), rep.Calibration.SameEnd, 1e-9)
}

// A policy may change nothing but the policy, and the error names the place.
func TestAPolicyWithOtherStepsIsRefused(t *testing.T) {
	t.Parallel()
	history := small(t)
	for place, text := range map[string]string{
		"steps.card.with.stock": strings.Replace(policyA, "steps.stock.output.id", "steps.stock.output.ok", 1),
		"steps.stock.undo":      strings.Replace(policyA, ", undo: {retry: {attempts: 2, backoff: 1s}}", "", 1),
		"steps.bill":            strings.Replace(policyA, "output:", "  bill: {agent: bill}\noutput:", 1),
	} {
		require.NotEqual(t, policyA, text)
		_, err := whatif.Run(t.Context(), whatif.Config{Log: logOf(history.Log), Topic: "events", Policy: parse(t, text), Draws: 1, Dir: t.TempDir()})
		var other *whatif.PolicyError
		require.ErrorAs(t, err, &other)
		require.ErrorContains(t, err, place+` is not as in version 1 of workflow "order"`)
	}
}

// A task in which an operator took part is replayed until then: of one that was parked and retried, parked is the end.
func TestAParkedTaskEndsThere(t *testing.T) {
	t.Parallel()
	history := play(t, 2, 120, policyA)
	parked := ""
	for i := range history.tasks {
		id := fmt.Sprintf("o-%04d", i)
		task, err := history.State.Task(id)
		require.NoError(t, err)
		if task.State == events.TaskStateError {
			parked = id
			break
		}
	}
	require.NotEmpty(t, parked)
	before := history.ends()
	r, err := events.EncodeRequest(events.Request{ID: "r-1", Kind: events.RequestRetry, Task: parked}, events.Subject{ID: "r-1", Source: "/test", Time: history.Now})
	require.NoError(t, err)
	history.Put(events.Reports, r)
	history.live[parked] = true
	history.Run()
	history.run()
	require.NotEqual(t, before, history.ends(), "the retry helped")
	rep := run(t, whatif.Config{Log: logOf(history.Log), Policy: parse(t, policyA)})
	require.InDelta(t, 1, rep.Calibration.SameEnd, 0)
	require.InDelta(t, before[events.TaskStateError], rep.Estimate.Ends[events.TaskStateError].History, 0)
}

// An operation that history hardly has cannot be drawn: the ends that depend on it are unknown, and not guessed.
func TestTooFewSamplesAreUnknown(t *testing.T) {
	t.Parallel()
	history := play(t, 7, 12, policyA) // hardly any task is undone
	rep := run(t, whatif.Config{Log: logOf(history.Log), Policy: parse(t, strings.Replace(policyA, "attempts: 3", "attempts: 1", 1))})
	require.NotZero(t, rep.Estimate.Unknown.High)
	require.NotEmpty(t, rep.Estimate.Few)
	require.Less(t, rep.Estimate.Few[0].Samples, 5)
	require.Equal(t, events.Undo, rep.Estimate.Few[0].Operation)
}

// A log that was cut begins with a carry, which has the definitions of the tasks that came later.
func TestALogThatWasCutIsReplayed(t *testing.T) {
	t.Parallel()
	settings := events.DefaultSettings()
	settings.KeepLog = events.Duration(4 * time.Minute) // so there is a carry each minute
	history := playWith(t, 7, 40, policyA, settings)
	whole := run(t, whatif.Config{Log: logOf(history.Log), Policy: parse(t, policyA)})
	require.InDelta(t, 1, whole.Calibration.SameEnd, 0)
	cut := history.carryAfter(time.Minute)
	rep := run(t, whatif.Config{Log: logOf(history.Log[cut:]), Policy: parse(t, policyA)})
	require.InDelta(t, 1, rep.Calibration.SameEnd, 0)
	require.Empty(t, rep.Calibration.NotReplayed)
	require.Less(t, rep.Calibration.Tasks, whole.Calibration.Tasks)
	require.Greater(t, rep.Calibration.Tasks, 10)
}

// A task that a replay cannot follow to its end is unknown: it hides neither other tasks nor other draws.
func TestATaskWithTooManyAttemptsIsUnknown(t *testing.T) {
	t.Parallel()
	history := small(t)
	const long = whatif.Reason("too many attempts to replay")
	patient := strings.Replace(policyA, "retry: {attempts: 3, backoff: 500ms, factor: 2, then: undo}", "retry: {attempts: 900, backoff: 200ms, factor: 1, then: undo}", 1)
	require.NotEqual(t, policyA, patient)
	rep := run(t, whatif.WithMoves(whatif.Config{Log: logOf(history.Log), Policy: parse(t, patient)}, 60))
	require.InDelta(t, 1, rep.Calibration.SameEnd, 0)
	require.NotZero(t, rep.Estimate.Ends[events.TaskStateProcessed].Low)
	require.NotZero(t, rep.Estimate.Unknown.Low)
	require.Len(t, rep.Estimate.Why, 1)
	require.Equal(t, long, rep.Estimate.Why[0].Reason)

	few := run(t, whatif.WithMoves(whatif.Config{Log: logOf(history.Log), Policy: parse(t, policyA)}, 7))
	require.Empty(t, few.Calibration.NotReplayed)
	require.Len(t, few.Calibration.Differences, 1)
	require.Equal(t, long, few.Calibration.Differences[0].Reason)
}

// shrinking is a log that is cut after its bounds were asked for.
type shrinking struct {
	logOf
	by    int
	asked *int
}

// Bounds implements verify.Log.
func (l shrinking) Bounds(ctx context.Context, topic string) ([]verify.Bounds, error) {
	if *l.asked++; *l.asked > 1 {
		return l.logOf[l.by:].Bounds(ctx, topic)
	}
	return l.logOf.Bounds(ctx, topic)
}

// Read implements verify.Log.
func (l shrinking) Read(ctx context.Context, s verify.Span, yield func(events.Record) error) error {
	if begins := l.logOf[l.by].Offset; s.From < begins {
		return fmt.Errorf("offset %d is before %d", s.From, begins)
	}
	return l.logOf.Read(ctx, s, yield)
}

// A log that is in use is cut now and then. A partition is read from where it begins when its turn comes, which may be minutes after the first look.
func TestAPartitionIsReadFromWhereItBeginsThen(t *testing.T) {
	t.Parallel()
	settings := events.DefaultSettings()
	settings.KeepLog = events.Duration(4 * time.Minute)
	history := playWith(t, 7, 40, policyA, settings)
	cut := history.carryAfter(time.Minute)
	asked := 0
	rep := run(t, whatif.Config{Log: shrinking{logOf(history.Log), cut, &asked}, Policy: parse(t, policyA)})
	require.Equal(t, run(t, whatif.Config{Log: logOf(history.Log[cut:]), Policy: parse(t, policyA)}), rep)
}

// rich has what else a workflow may have: a deadline, a sleep, items of which one may fail, a limit, a wait, and an attempt that shows progress.
const rich = `
workflow: order
deadline: 50s
concurrency: {key: all, max: 3}
defaults: {complete_within: 3s, retry: {attempts: 3, backoff: 500ms, factor: 2, then: undo}}
steps:
  stock: {agent: stock, undo: {}}
  nap: {sleep: 2s, needs: [stock]}
  parts: {agent: ship, needs: [nap], limit: parts, retry: {attempts: 1, then: undo}, for: {each: [1, 2, 3, 4], as: part, parallel: 2, tolerate: 1}, with: {part: "${ part }"}, undo: {}}
  approval: {wait: {signal: approved}, needs: [parts], complete_within: 8s, on_timeout: continue}
  card: {agent: card, needs: [approval], heartbeat: 5s, complete_within: 30s, with: {by: "${ steps.approval.output?.payload ?? \"nobody\" }"}}
output: "${ steps.card.output.id }"
`

// What the engine decides by timers, signals, items and limits is reproduced, too, and so is what a cancel led to.
func TestEachKindOfStepIsReproduced(t *testing.T) {
	t.Parallel()
	history := play(t, 3, 60, rich)
	ends := history.ends()
	require.NotZero(t, ends[events.TaskStateProcessed])
	require.NotZero(t, ends[events.TaskStateUndone])
	rep := run(t, whatif.Config{Log: logOf(history.Log), Policy: parse(t, rich)})
	require.Empty(t, rep.Calibration.NotReplayed)
	require.Empty(t, rep.Calibration.Differences)
	require.InDelta(t, 0, rep.Calibration.Attempts, 0.001)
	require.InDelta(t, 0, rep.Calibration.P95, 0.02)
	require.InDelta(t, 1, rep.Estimate.Taken, 0)
}
