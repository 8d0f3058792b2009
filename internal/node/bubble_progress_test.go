//go:build synctests

package node_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// training has a step that takes hours.
const training = `
workflow: order
steps:
  train:
    agent: gpu
    complete_within: 7h
    heartbeat: 30s
    retry: {attempts: 3, backoff: 1s, then: undo}
    undo: {with: {id: "${ string(step.progress.hours) }"}}
`

// hours is the progress of a training.
type hours struct {
	Hours float64 `json:"hours"`
}

// trains runs for the given time, in steps of ten seconds, and shows progress.
func trains(ctx context.Context, long time.Duration) error {
	var last hours
	if _, err := agent.LastProgress(ctx, &last); err != nil {
		return agent.Permanent(err)
	}
	for done := time.Duration(last.Hours * float64(time.Hour)); done < long; done += 10 * time.Second {
		if err := agent.Progress(ctx, hours{done.Hours()}); err != nil {
			return agent.Ended(err)
		}
		select {
		case <-time.After(10 * time.Second):
		case <-ctx.Done():
			return agent.Ended(context.Cause(ctx))
		}
	}
	return nil
}

// trained is a world with the workflow and one node.
func trained(t *testing.T) (*world, *process) {
	w := setup(t, 1)
	w.kinds = []string{"gpu"}
	n := w.node(t.TempDir())
	w.apply(n, training)
	return w, n
}

// begun waits until an attempt of the step was started, and returns when.
func (w *world) begun(task string, attempt int) (at events.Instant) {
	w.t.Helper()
	w.watch.await("the attempt starts", func() bool {
		for _, s := range w.watch.facts {
			if b, ok := s.fact.Body.(*events.StepStarted); ok && s.fact.Task == task && b.Attempt == attempt {
				at = s.fact.Time
			}
		}
		return at != 0
	})
	return at
}

// The step takes six hours in the full proof, two in the gate, and one otherwise: each virtual hour takes seven seconds, and more on a
// busy machine.
func TestFaultAStepOfHoursIsExtendedAllTheWay(t *testing.T) {
	long := time.Hour
	if gate() {
		long = 2 * time.Hour
	}
	if *bubbleSeeds >= 500 {
		long = 6 * time.Hour
	}
	bubble(t, func(t *testing.T) {
		w, n := trained(t)
		over := make(chan error, 1)
		w.hire(func(ctx context.Context, a agent.Attempt) error {
			require.Equal(t, 30*time.Second, a.Heartbeat)
			err := trains(ctx, long)
			over <- err
			return err
		})
		w.windowKnown(n, "gpu")
		began := time.Now()
		w.submit("t-1")
		require.NoError(t, <-over)
		require.GreaterOrEqual(t, time.Since(began), long)
		task := w.watch.state("t-1", events.TaskStateProcessed)
		require.Equal(t, 1, task.Step("train").Attempt)
		require.Less(t, task.Facts, 10, "progress does not count")
		beats := 0
		for _, s := range w.watch.log() {
			if s.fact.Body.Name() == events.NameStepProgressed {
				beats++
			}
		}
		t.Logf("%d facts about progress in %s", beats, long)
		require.LessOrEqual(t, beats, int(long/(30*time.Second))+1, "one each heartbeat at most")
		require.Greater(t, beats, int(long/(72*time.Second)))
	})
}

func TestFaultACancelStopsALongStepWithinASecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, n := trained(t)
		stopped := make(chan time.Time, 1)
		var undone json.RawMessage
		w.hire(func(ctx context.Context, a agent.Attempt) error {
			if a.Operation == events.Undo {
				return nil
			}
			err := trains(ctx, 6*time.Hour)
			stopped <- time.Now()
			return err
		})
		w.windowKnown(n, "gpu")
		w.submit("t-1")
		w.begun("t-1", 1)
		<-time.After(10 * time.Minute)
		asked := time.Now()
		w.request(events.RequestCancel, "t-1", "c-1")
		require.Less(t, (<-stopped).Sub(asked), time.Second)
		task := w.watch.state("t-1", events.TaskStateUndone)
		require.Less(t, task.EndedAt.Time().Sub(asked), 5*time.Second, "the agent says that the attempt has ended, so its undo does not wait")
		for _, s := range w.watch.log() {
			if b, ok := s.fact.Body.(*events.CompensationStarted); ok {
				undone = b.Input
			}
		}
		require.Contains(t, string(undone), `{"id":"0.1`, "the undo sees how far the step had come")
	})
}

// The first instance is cut off: it ends its attempt by itself, because no progress is acknowledged, before the second one begins the next.
func TestFaultAnotherInstanceResumesFromTheLastProgress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, n := trained(t)
		stopped := make(chan time.Time, 1)
		first := w.hire(func(ctx context.Context, _ agent.Attempt) error {
			err := trains(ctx, 2*time.Hour)
			stopped <- time.Now()
			return err
		})
		w.windowKnown(n, "gpu")
		w.submit("t-1")
		w.begun("t-1", 1)
		<-time.After(30 * time.Minute)
		resumed := make(chan hours, 1)
		w.hire(func(ctx context.Context, _ agent.Attempt) error {
			var last hours
			_, err := agent.LastProgress(ctx, &last)
			resumed <- last
			return err
		})
		<-time.After(10 * time.Second)
		first.net.freeze()
		defer first.net.thaw()
		end := <-stopped
		last := <-resumed
		require.InDelta(t, 0.5, last.Hours, 0.02)
		started := w.begun("t-1", 2)
		require.Less(t, events.At(end), started, "the first attempt had ended when the second began")
		w.watch.state("t-1", events.TaskStateProcessed)
	})
}
