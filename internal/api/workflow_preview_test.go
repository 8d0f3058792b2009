package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPreviewStartsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.do("POST", "/v1/workflows/order/preview", `{"input":{"item":"x"}}`)
	require.Equal(t, 200, r.status, r.body)
	steps := r.json(t)["steps"].([]any)
	require.Len(t, steps, 3)
	require.Equal(t, map[string]any{"id": "reserve", "agent": "stock", "undo": true, "starts": true, "with": map[string]any{"item": "x"}}, steps[0])
	require.NotContains(t, steps[1], "starts")

	r = w.do("POST", "/v1/workflows/order/preview", `{"input":{"item":5}}`)
	require.Equal(t, 200, r.status, r.body)
	require.Equal(t, []any{map[string]any{"pointer": "/input/item", "message": "must be a text"}}, r.json(t)["faults"])
	require.NotContains(t, r.json(t), "steps")
	require.Contains(t, w.do("GET", "/v1/tasks", "").body, `"tasks":[]`)
}

func TestAPreviewThatCannotBeMadeIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for body, want := range map[string]string{
		`{"version":0}`: "/version", `{"id":""}`: "/id", `{"inptu":1}`: "inptu", `[`: "", `{"version":9}`: "no version 9",
	} {
		r := w.do("POST", "/v1/workflows/order/preview", body)
		require.GreaterOrEqual(t, r.status, 400, body)
		require.Less(t, r.status, 500, body)
		require.Contains(t, r.body, want)
	}
	r := w.do("POST", "/v1/workflows/ordre/preview", "")
	require.Equal(t, 404, r.status)
	require.Contains(t, r.body, `did you mean \"order\"?`)
}

// What an owner would make of a submission later is said before it is written.
func TestLabelsThatCannotBeGivenAreRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.do("PUT", "/v1/tasks/t-1", `{"workflow":"order","input":{"item":"unlabelled"}}`)
	require.Equal(t, 422, r.status, r.body)
	require.Equal(t, []any{map[string]any{"pointer": "/labels/item", "message": "the label of the workflow is a list"}}, r.json(t)["errors"])
	r = w.do("POST", "/v1/workflows/order/preview", `{"input":{"item":"unlabelled"}}`)
	require.Equal(t, []any{map[string]any{"pointer": "/labels/item", "message": "the label of the workflow is a list"}}, r.json(t)["faults"])
	r = w.do("POST", "/v1/workflows/order/preview", `{"input":{"item":"labelled"}}`)
	require.Equal(t, map[string]any{"item": "labelled"}, r.json(t)["labels"])
}
