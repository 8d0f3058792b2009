package api_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// An operator who decides about a parked task has to know what may have been done, and by which key the service knows it.
func TestAParkedTaskSaysWhichStepsMayHaveTakenEffect(t *testing.T) {
	t.Parallel()
	namespace := uuid.MustParse("7b2c7f2c-2c0e-4d0d-9a51-0d8b0a1b2c3d")
	w := setup(t, func(cfg *api.Config) { cfg.NamespaceID = namespace.String() })
	w.do("PUT", "/v1/tasks/x", good)
	step := func(path string, touched bool, state events.StepState) *events.Step {
		return &events.Step{Path: path, Agent: "bank", State: state, Touched: touched, Error: &events.Error{Class: events.ClassTimeout}}
	}
	var incarnation string
	parked := func(steps ...*events.Step) string {
		w.engine.Change("x", &events.TaskParked{Reason: "no answer"}, func(t *events.Task) {
			t.State, t.Reason, t.Steps = events.TaskStateError, "no answer", steps
			incarnation = t.Incarnation
		})
		return w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"].([]any)[0].(map[string]any)["for"].(string)
	}
	require.Equal(t, "no answer", parked(step("pay", false, events.StepStateFailed), step("hotel", true, events.StepStateCompleted)))
	said := parked(step("pay", true, events.StepStateTimedOut))
	key := (&events.Work{Task: "x", Ticket: incarnation, Run: 1, Step: "pay"}).Key(namespace, events.Do)
	require.Equal(t, `no answer; step "pay" may have taken effect (Idempotency-Key `+key+`)`, said)
	said = parked(step("a", true, events.StepStateTimedOut), step("b", true, events.StepStateFailed), step("c", true, events.StepStateFailed), step("d", true, events.StepStateFailed), step("e", true, events.StepStateFailed))
	require.Contains(t, said, `step "c" may have taken effect`)
	require.NotContains(t, said, `"d"`)
	require.Contains(t, said, ", and so may 2 more")
}
