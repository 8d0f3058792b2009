package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

var errRefused = errors.New("refused")

// whole is the list of facts of an undisturbed task.
var whole = []string{
	"Submitted", "StepStarted reserve 1", "StepCompleted reserve 1", "StepStarted charge 1", "StepCompleted charge 1",
	"StepStarted pack 1", "StepCompleted pack 1", "StepStarted ship 1", "StepCompleted ship 1",
	"StepStarted notify 1", "StepCompleted notify 1", "TaskProcessed",
}

// ready builds a world with one node, the workflow order and a crew.
func ready(t *testing.T, act func(ctx context.Context, a agent.Attempt) error) (*world, *process, *crew) {
	t.Helper()
	w := setup(t, 4)
	n := w.node(t.TempDir())
	w.apply(n, order)
	c := w.hire(act)
	w.windowKnown(n, "stock")
	return w, n, c
}

func TestATaskProducedToKafkaInAnyFormEnds(t *testing.T) {
	plain := submission("t-1", map[string]any{"n": 1})
	keyless := plain
	keyless.Key = nil
	binary := plain
	binary.Headers = []events.Header{
		{Key: events.HeaderSpecVersion, Value: []byte("1.0")}, {Key: events.HeaderID, Value: []byte("e-1")},
		{Key: events.HeaderSource, Value: []byte("/elsewhere")}, {Key: events.HeaderType, Value: []byte(events.TypeSubmission)},
		{Key: events.HeaderSubject, Value: []byte("t-1")}, {Key: events.HeaderContentType, Value: []byte("application/json")},
	}
	data, err := json.Marshal(map[string]any{
		"specversion": "1.0", "id": "e-1", "source": "/elsewhere", "type": events.TypeSubmission, "subject": "t-1",
		"datacontenttype": "application/json", "data": json.RawMessage(plain.Value),
	})
	require.NoError(t, err)
	structured := events.Record{Key: []byte("t-1"), Value: data, Headers: []events.Header{
		{Key: events.HeaderContentType, Value: []byte("application/cloudevents+json; charset=utf-8")},
	}}
	home := events.Home("t-1", 4)
	for name, c := range map[string]struct {
		record    events.Record
		partition int32
	}{
		"plain": {plain, home}, "without a key": {keyless, home}, "binary CloudEvent": {binary, home},
		"structured CloudEvent": {structured, home}, "in the wrong partition": {plain, (home + 1) % 4},
		"structured in the wrong partition": {structured, (home + 3) % 4},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, _, crew := ready(t, nil)
				w.produce(w.topics.Submissions(), c.partition, c.record)
				task := w.watch.state("t-1", events.TaskStateProcessed)
				require.JSONEq(t, `{"did":"ship"}`, string(task.Output))
				require.Equal(t, whole, w.watch.story("t-1"))
				require.Len(t, crew.all(), 5)
				w.watch.verify()
			})
		})
	}
}

func TestACancelThatComesFirstCancels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, crew := ready(t, nil)
		w.request(events.RequestCancel, "t-1", "c-1")
		w.watch.await("the request is held", func() bool { return len(w.watch.states[events.Home("t-1", 4)].HeldFor("t-1")) == 1 })
		w.submit("t-1")
		w.watch.state("t-1", events.TaskStateUndone)
		require.Empty(t, crew.all(), "no step starts")
		require.Equal(t, []string{"RequestHeld", "Submitted", "CancelRequested", "TaskUndone"}, w.watch.story("t-1"))
	})
}

func TestACancelMidwayUndoesInReverse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reached, goOn := make(chan struct{}, 10), make(chan struct{})
		w, _, crew := ready(t, func(ctx context.Context, a agent.Attempt) error {
			if a.Step == "pack" && a.Operation == events.Do {
				reached <- struct{}{}
				<-goOn
			}
			return nil
		})
		w.submit("t-1")
		<-reached
		w.request(events.RequestCancel, "t-1", "c-1")
		w.watch.state("t-1", events.TaskStateUndoing)
		require.Empty(t, crew.of("t-1", "charge", events.Undo), "no undo starts while an attempt runs")
		close(goOn)
		w.watch.state("t-1", events.TaskStateUndone)
		require.Equal(t, []string{
			"CancelRequested", "StepCompleted pack 1", "CompensationStarted pack 1", "Compensated pack 1", "CompensationStarted charge 1",
			"Compensated charge 1", "CompensationStarted reserve 1", "Compensated reserve 1", "TaskUndone",
		}, w.watch.story("t-1")[6:])
		w.request(events.RequestCancel, "t-1", "c-2")
		w.watch.await("the late cancel is refused", func() bool { return rejected(w, "t-1") == events.RejectRefused })
	})
}

// rejected returns the reason of the latest rejection about a task; called with the observer's mu held.
func rejected(w *world, id string) (reason string) {
	for _, s := range w.watch.facts {
		if r, ok := s.fact.Body.(*events.InputRejected); ok && s.fact.Task == id {
			reason = r.Reason
		}
	}
	return reason
}

// refused returns the reason for which the latest request about a task was refused; called with the observer's mu held.
func refused(w *world, id string) (reason string) {
	for _, s := range w.watch.facts {
		if r, ok := s.fact.Body.(*events.RequestRefused); ok && s.fact.Task == id {
			reason = r.Reason
		}
	}
	return reason
}

func TestADeadlineUndoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, _ := ready(t, func(ctx context.Context, a agent.Attempt) error {
			if a.Step == "charge" && a.Operation == events.Do {
				return agent.NoEffect(errRefused)
			}
			return nil
		})
		r := submission("t-1", nil)
		r.Value = []byte(`{"id":"t-1","workflow":"order","deadline":"100ms"}`)
		begin := time.Now()
		w.produce(w.topics.Submissions(), -1, r)
		w.watch.state("t-1", events.TaskStateUndone)
		require.Less(t, time.Since(begin), 5*time.Second)
		require.Equal(t, []string{"DeadlinePassed undo", "CompensationStarted reserve 1", "Compensated reserve 1", "TaskUndone"}, w.watch.story("t-1")[5:])
		w.alerted(supervisor.AlertDeadline, "t-1")
		w.alerted(supervisor.AlertUndone, "t-1")
	})
}

// alerted waits for an alert of the kind about the task.
func (w *world) alerted(kind, task string) supervisor.Alert {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for from := int64(0); ; {
		end, err := w.cluster.EndOffset(ctx, w.topics.Alerts(), 0)
		require.NoError(w.t, err)
		var found *supervisor.Alert
		if end > from {
			require.NoError(w.t, w.cluster.ReadRange(ctx, w.topics.Alerts(), 0, from, end, func(r events.Record) error {
				var a supervisor.Alert
				require.NoError(w.t, json.Unmarshal(r.Value, &a))
				require.Equal(w.t, events.TypeAlert, r.Header(events.HeaderType))
				if a.Kind == kind && a.Task == task {
					found = &a
				}
				return nil
			}))
			from = end
		}
		if found != nil {
			return *found
		}
		w.pause(ctx, fmt.Sprintf("an alert %s of %s", kind, task))
	}
}

// pause lets a little time pass between two looks at a condition that has no event.
func (w *world) pause(ctx context.Context, what string) {
	w.t.Helper()
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		require.FailNow(w.t, "timed out waiting for "+what)
	}
}

func TestAStepThatTimesOutIsRetriedWithTheSameIdentifier(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, crew := ready(t, func(ctx context.Context, a agent.Attempt) error {
			if a.Step == "charge" && a.Attempt < 3 {
				<-ctx.Done() // hangs after the effect
			}
			return nil
		})
		begin := time.Now()
		w.submit("t-1")
		w.watch.state("t-1", events.TaskStateProcessed)
		require.Less(t, time.Since(begin), 13*time.Second)
		calls := crew.of("t-1", "charge", events.Do)
		require.Len(t, calls, 3)
		for i, a := range calls {
			require.Equal(t, i+1, a.Attempt)
			require.Equal(t, calls[0].IdempotencyKey, a.IdempotencyKey)
		}
		require.Equal(t, []string{
			"StepStarted charge 1", "Timeout charge 1 retry", "StepStarted charge 2", "Timeout charge 2 retry",
			"StepStarted charge 3", "StepCompleted charge 3",
		}, w.watch.story("t-1")[3:9])
		w.watch.verify()
	})
}

func TestAPermanentFailureUndoesAndAlerts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, crew := ready(t, func(ctx context.Context, a agent.Attempt) error {
			if a.Step == "pack" && a.Operation == events.Do {
				return agent.Permanent(agent.NoEffect(errRefused))
			}
			return nil
		})
		w.submit("t-1")
		task := w.watch.state("t-1", events.TaskStateUndone)
		require.Equal(t, []string{
			"StepFailed pack 1 undo", "CompensationStarted charge 1", "Compensated charge 1", "CompensationStarted reserve 1",
			"Compensated reserve 1", "TaskUndone",
		}, w.watch.story("t-1")[6:])
		require.Empty(t, crew.of("t-1", "pack", events.Undo), "a step that had no effect is not undone")
		a := w.alerted(supervisor.AlertPermanent, "t-1")
		require.Equal(t, "pack", a.Step)
		require.Equal(t, "order", a.Workflow)
		w.alerted(supervisor.AlertUndone, "t-1")
		require.Contains(t, task.Reason, "refused")
	})
}

func TestAnUndoThatKeepsFailingParksAndARetryResumesIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		broken := make(chan struct{})
		w, _, crew := ready(t, func(ctx context.Context, a agent.Attempt) error {
			switch {
			case a.Step == "pack" && a.Operation == events.Do:
				return agent.Permanent(agent.NoEffect(errRefused))
			case a.Step == "charge" && a.Operation == events.Undo:
				select {
				case <-broken:
				default:
					return errRefused
				}
			}
			return nil
		})
		w.submit("t-1")
		task := w.watch.state("t-1", events.TaskStateError)
		require.Equal(t, events.TaskStateUndoing, task.ParkedFrom)
		tries := crew.of("t-1", "charge", events.Undo)
		require.Len(t, tries, 3)
		w.alerted(supervisor.AlertParked, "t-1")
		close(broken)
		w.request(events.RequestRetry, "t-1", "r-1")
		w.watch.state("t-1", events.TaskStateUndone)
		again := crew.of("t-1", "charge", events.Undo)
		require.Len(t, again, 4)
		require.Equal(t, again[0].IdempotencyKey, again[3].IdempotencyKey, "a retry has the same identifier")
		require.NotEqual(t, again[0].IdempotencyKey, crew.of("t-1", "charge", events.Do)[0].IdempotencyKey)
		require.Len(t, crew.of("t-1", "reserve", events.Undo), 1)
	})
}

func TestAfterThePivotATaskOnlyGoesForward(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fixed := make(chan struct{})
		w, _, crew := ready(t, func(ctx context.Context, a agent.Attempt) error {
			if a.Step == "notify" {
				select {
				case <-fixed:
				default:
					return errRefused
				}
			}
			return nil
		})
		w.submit("t-1")
		task := w.watch.state("t-1", events.TaskStateError)
		require.True(t, task.PivotPassed)
		w.request(events.RequestCancel, "t-1", "c-1")
		w.watch.await("the cancel is refused", func() bool { return refused(w, "t-1") != "" })
		close(fixed)
		w.request(events.RequestRetry, "t-1", "r-1")
		w.watch.state("t-1", events.TaskStateProcessed)
		require.Len(t, crew.of("t-1", "notify", events.Do), 3)
		require.Len(t, crew.of("t-1", "ship", events.Do), 1)
	})
}

func TestAPivotOfUnknownOutcomeIsParkedAndNeverUndone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, crew := ready(t, func(ctx context.Context, a agent.Attempt) error {
			if a.Step == "ship" {
				<-ctx.Done()
			}
			return nil
		})
		w.submit("t-1")
		w.watch.state("t-1", events.TaskStateError)
		require.Len(t, crew.of("t-1", "ship", events.Do), 3)
		for _, a := range crew.all() {
			require.Equal(t, events.Do, a.Operation)
		}
		w.request(events.RequestCancel, "t-1", "c-1")
		w.watch.await("the cancel is refused", func() bool { return refused(w, "t-1") != "" })
	})
}

func TestAPivotThatCertainlyDidNotHappenIsUndone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, _ := ready(t, func(ctx context.Context, a agent.Attempt) error {
			if a.Step == "ship" {
				return agent.Permanent(agent.NoEffect(errRefused))
			}
			return nil
		})
		w.submit("t-1")
		w.watch.state("t-1", events.TaskStateError) // its policy is to park
		w.request(events.RequestCancel, "t-1", "c-1")
		w.watch.state("t-1", events.TaskStateUndone)
	})
}
