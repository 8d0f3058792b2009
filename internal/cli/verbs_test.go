package cli_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// Each verb, in each state of a task and of the step it is about: the command line and the API say what the owner decides, and say the
// same when the request is repeated.
func TestEachVerbIsAnsweredByCommandAndCall(t *testing.T) {
	t.Parallel()
	do := func(task events.TaskState, step events.StepState) func(t *events.Task) {
		return func(t *events.Task) {
			t.State, t.ParkedFrom = task, ""
			if task == events.TaskStateError {
				t.ParkedFrom = events.TaskStateProcessing
			}
			t.Steps = []*events.Step{{Path: "ship", Agent: "post", State: step, Attempt: 1, Touched: true}}
		}
	}
	undo := func(task events.TaskState, state, undo events.StepState) func(t *events.Task) {
		return func(t *events.Task) {
			do(task, state)(t)
			if t.ParkedFrom != "" {
				t.ParkedFrom = events.TaskStateUndoing
			}
			t.Steps[0].Undo = &events.UndoState{State: undo, Attempt: 1}
		}
	}
	states := map[string]func(t *events.Task){
		"pending": func(*events.Task) {},
		"running": do(events.TaskStateProcessing, events.StepStateRunning),
		"paused": func(t *events.Task) {
			do(events.TaskStateProcessing, events.StepStateRunning)(t)
			t.Paused = &events.Paused{By: "ada", Since: t.UpdatedAt}
		},
		"waiting":           do(events.TaskStateProcessing, events.StepStateWaiting),
		"completed":         do(events.TaskStateProcessing, events.StepStateCompleted),
		"parked":            do(events.TaskStateError, events.StepStateFailed),
		"undoing":           undo(events.TaskStateUndoing, events.StepStateUndoing, events.StepStateRunning),
		"parked in an undo": undo(events.TaskStateError, events.StepStateUndoFailed, events.StepStateFailed),
		"processed":         do(events.TaskStateProcessed, events.StepStateCompleted),
		"undone":            do(events.TaskStateUndone, events.StepStateUndone),
		"terminated":        do(events.TaskStateTerminated, events.StepStateFailed),
	}
	aboutStep := []events.Verb{events.RequestSkip, events.RequestComplete, events.RequestFail}
	for state, change := range states {
		for _, verb := range events.Verbs() {
			t.Run(state+", "+string(verb), func(t *testing.T) {
				t.Parallel()
				e := setup(t)
				for _, id := range []string{"c", "h"} {
					e.submit(t, id)
					e.Change(id, &events.StepFailed{}, change)
				}
				before, err := e.Task(t.Context(), "c")
				require.NoError(t, err)
				args, body := []string{"task", string(verb), "c", "--request-id", "q"}, `{}`
				q := events.Request{ID: "q", Kind: verb, Task: "c"}
				switch {
				case slices.Contains(aboutStep, verb):
					q.Step = "ship"
					args, body = append(args, "--step", "ship", "--yes"), `{"step":"ship"}`
				case verb == events.RequestRerun:
					args = append(args, "--yes")
				case verb == events.RequestSignal:
					q.Signal = "go"
					args, body = append(args, "go"), `{"signal":"go"}`
				}
				_, no := supervisor.JudgeRequest(before, &q)
				for range 2 {
					code, status := 0, 200
					if no.Reason != "" {
						code, status = 4, 409
					}
					r := e.run(args...)
					require.Equal(t, code, r.code, r.err)
					require.Contains(t, r.err, no.Reason)
					got, text := ask(t, e.url+"/v1/tasks/h/"+string(verb)+"?wait=5s", body)
					require.Equal(t, status, got, text)
				}
			})
		}
	}
}

// ask posts the request q, and returns the status and the body of the answer.
func ask(t *testing.T, url, body string) (int, string) {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "q")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}
