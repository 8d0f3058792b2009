package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARerunOfAnEndedTaskIsAnswered(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	r := w.do("POST", "/v1/tasks/x/rerun?wait=5s", "")
	require.Equal(t, 409, r.status, r.body)
	require.Contains(t, r.body, "rerun is for a task that has ended or is parked")
	w.engine.Finish("x")
	for body, place := range map[string]string{`{"from":"nowhere"}`: "/from", `{"from":17}`: "/from", `{"step":"charge"}`: "/step"} {
		r := w.do("POST", "/v1/tasks/x/rerun", body)
		require.Equal(t, 422, r.status, r.body)
		require.Contains(t, r.body, place)
	}
	r = w.do("POST", "/v1/tasks/x/rerun?wait=5s", `{"from":"charge","input":{"item":"y"},"reason":"wrong item"}`, "Idempotency-Key", "r1")
	require.Equal(t, 200, r.status, r.body)
	require.Equal(t, "granted", r.json(t)["result"])
	require.Equal(t, "rerun", r.json(t)["verb"])
	require.Equal(t, "undoing", w.do("GET", "/v1/tasks/x", "").json(t)["state"])
	require.Equal(t, 200, w.do("POST", "/v1/tasks/x/rerun", "", "Idempotency-Key", "r1").status, "a repeat is answered by the fact")
}

func TestARequestBehindARerunThatIsNotJudgedYetIsNotRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	w.engine.Finish("x")
	w.engine.Manual, w.engine.CatchingUp = true, w.engine.Judge
	require.Equal(t, 202, w.do("POST", "/v1/tasks/x/rerun", "").status)
	r := w.do("POST", "/v1/tasks/x/pause", "")
	require.Equal(t, 202, r.status, r.body)
}

func TestAnIDOfAnotherVerbIsAConflict(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	require.Equal(t, 200, w.do("POST", "/v1/tasks/x/pause?wait=5s", "", "Idempotency-Key", "p1").status)
	r := w.do("POST", "/v1/tasks/x/cancel?wait=5s", "", "Idempotency-Key", "p1")
	require.Equal(t, 409, r.status, r.body)
	require.Contains(t, r.body, `The request ID \"p1\" is that of an earlier pause of this task: give this cancel another one.`)
	require.Equal(t, 200, w.do("POST", "/v1/tasks/x/pause", "", "Idempotency-Key", "p1").status)
}
