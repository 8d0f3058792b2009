package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/api"
)

func TestADefinitionIsDeletedOnceNoLiveTaskUsesIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 3 { // the tasks of this engine have version 1
		require.Equal(t, 200, w.do("PUT", "/v1/workflows/flow", fmt.Sprintf("workflow: flow\ndescription: %d\n", i)).status)
		require.Equal(t, 202, w.do("PUT", fmt.Sprintf("/v1/tasks/t%d", i), `{"workflow":"flow","input":{"item":"x"}}`).status)
	}
	r := w.do("DELETE", "/v1/workflows/flow/versions/3", "")
	require.Equal(t, 409, r.status)
	require.Contains(t, r.body, "version 3 of workflow flow is current: new tasks get it. Apply another version first, or delete the whole workflow.")
	r = w.do("DELETE", "/v1/workflows/flow/versions/1", "")
	require.Equal(t, 409, r.status)
	require.Contains(t, r.body, "version 1 of workflow flow is used by live tasks: 3.")
	require.Contains(t, r.body, "sagalog task list --workflow flow --state pending,processing,undoing,parked")
	r = w.do("DELETE", "/v1/workflows/flow/versions/2", "")
	require.Equal(t, 200, r.status, "only tasks of that version count: "+r.body)
	require.Equal(t, []any{2.0}, r.json(t)["versions"])
	r = w.do("DELETE", "/v1/workflows/flow/versions/2", "")
	require.Equal(t, 404, r.status)
	require.Contains(t, r.body, "no version 2; its versions are [1 3]")
	w.engine.Finish("t0")
	r = w.do("DELETE", "/v1/workflows/flow", "")
	require.Equal(t, 409, r.status)
	require.Contains(t, r.body, "workflow flow is used by live tasks: 2.")
	w.engine.Finish("t1")
	w.engine.Finish("t2")
	r = w.do("DELETE", "/v1/workflows/flow", "")
	require.Equal(t, 200, r.status, r.body)
	require.Equal(t, []any{1.0, 3.0}, r.json(t)["versions"])
	require.Equal(t, 404, w.do("GET", "/v1/workflows/flow", "").status)
	require.Equal(t, 404, w.do("PUT", "/v1/tasks/late", `{"workflow":"flow","input":{"item":"x"}}`).status)
	require.Equal(t, 404, w.do("DELETE", "/v1/workflows/flow", "").status)
	require.Equal(t, 422, w.do("DELETE", "/v1/workflows/flow/versions/0", "").status)
}

func TestAWorkflowThatAScheduleStartsIsNotDeleted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/workflows/order", "workflow: order\n")
	require.Equal(t, 200, w.do("PUT", "/v1/schedules/nightly", "schedule: nightly").status)
	r := w.do("DELETE", "/v1/workflows/order", "")
	require.Equal(t, 409, r.status, r.body)
	require.Contains(t, r.body, "schedules start tasks of workflow order: nightly. Delete them")
	require.Equal(t, 200, w.do("DELETE", "/v1/schedules/nightly", "").status)
	require.Equal(t, 200, w.do("DELETE", "/v1/workflows/order", "").status)
}

// The children of other workflows need theirs. One that only its own steps start can be deleted.
func TestAWorkflowThatStepsStartIsNotDeleted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, name := range []string{"hotel", "trip", "tour"} {
		w.do("PUT", "/v1/workflows/"+name, "workflow: "+name+"\n")
		x, err := w.engine.Workflow(t.Context(), name, 0)
		require.NoError(t, err)
		w.engine.SetSteps(x.Hash, api.Step{ID: "h", Workflow: "hotel"})
	}
	r := w.do("DELETE", "/v1/workflows/hotel", "")
	require.Equal(t, 409, r.status, r.body)
	require.Contains(t, r.body, "workflow hotel is started by steps of these workflows: tour, trip. Delete them first")
	require.Equal(t, 409, w.do("DELETE", "/v1/workflows/hotel/versions/1", "").status, "it is the only one")
	w.do("PUT", "/v1/workflows/hotel", "workflow: hotel\ndescription: second\n")
	require.Equal(t, 200, w.do("DELETE", "/v1/workflows/hotel/versions/1", "").status, "the steps start the current one")
	w.do("PUT", "/v1/workflows/hotel", "workflow: hotel\ndescription: third\n")
	x, err := w.engine.Workflow(t.Context(), "tour", 0)
	require.NoError(t, err)
	w.engine.SetSteps(x.Hash, api.Step{ID: "h", Workflow: "hotel", WorkflowVersion: 2})
	require.Equal(t, 409, w.do("DELETE", "/v1/workflows/hotel/versions/2", "").status, "a step starts this one")
	for _, name := range []string{"trip", "tour", "hotel"} {
		require.Equal(t, 200, w.do("DELETE", "/v1/workflows/"+name, "").status, name)
	}
}
