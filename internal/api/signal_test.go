package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASignalIsAnswered(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	r := w.do("POST", "/v1/tasks/x/signal?wait=5s", `{"signal":"go","payload":{"by":"ada"}}`, "Idempotency-Key", "s1")
	require.Equal(t, 200, r.status, r.body)
	require.Equal(t, "granted", r.json(t)["result"])
	require.Equal(t, "signal", r.json(t)["verb"])
	require.Equal(t, 200, w.do("POST", "/v1/tasks/x/signal", `{"signal":"go"}`, "Idempotency-Key", "s1").status, "a repeat is answered by the fact")
	got := w.do("GET", "/v1/tasks/x", "").json(t)["signals"].([]any)
	require.Len(t, got, 1, "no step has taken it")
	kept := got[0].(map[string]any)
	require.Equal(t, "go", kept["signal"])
	require.Equal(t, "s1", kept["request"])
	require.EqualValues(t, len(`{"by":"ada"}`), kept["payload_bytes"])
	for body, place := range map[string]string{
		`{"signal":"stop"}`:               "/signal",
		`{"signal":"go","payload":17}`:    "/payload",
		`{"signal":"go","operation":"x"}`: "/operation",
		`{"signal":17}`:                   "/signal",
	} {
		r := w.do("POST", "/v1/tasks/x/signal", body)
		require.Equal(t, 422, r.status, r.body)
		require.Contains(t, r.body, place)
	}
	require.Equal(t, 409, w.do("POST", "/v1/tasks/x/signal", `{}`).status)
	require.Equal(t, 202, w.do("POST", "/v1/tasks/unknown/signal", `{"signal":"stop"}`).status, "it is held, and judged with its task")
}
