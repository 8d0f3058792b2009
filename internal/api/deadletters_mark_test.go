package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// What somebody did about a dead letter is shown with it, and lists can leave it out.
func TestDeadLettersAreMarked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i, key := range []string{"a", "b", "c"} {
		w.engine.Bury(events.Submissions, events.Record{Partition: 1, Offset: int64(i), Key: []byte(key), Value: []byte(`{"workflow":"order","input":{"item":"x"}}`)}, []string{"unknown_workflow", "unknown_workflow", "invalid"}[i])
	}
	r := w.do("POST", "/v1/dead-letters/submissions-1-0/redrive", "")
	require.Equal(t, 202, r.status, r.body)
	mark := w.do("GET", "/v1/dead-letters/submissions-1-0", "").json(t)["mark"].(map[string]any)
	require.Equal(t, "redriven", mark["mark"])
	require.Equal(t, "a", mark["task"])
	require.EqualValues(t, 0, mark["offset"])

	r = w.do("POST", "/v1/dead-letters/submissions-1-1/dismiss", `{"reason":"a test","by":"ada"}`)
	require.Equal(t, 200, r.status, r.body)
	mark = r.json(t)["mark"].(map[string]any)
	require.Equal(t, "dismissed", mark["mark"])
	require.Equal(t, "a test", mark["reason"])
	require.Equal(t, "ada", mark["by"])

	_, keys := w.letters("open=true")
	require.Equal(t, []string{"c"}, keys)
	_, keys = w.letters("reason=unknown_workflow")
	require.Equal(t, []string{"b", "a"}, keys)
	page, keys := w.letters("open=true&reason=unknown_workflow")
	require.Empty(t, keys)
	require.Empty(t, page.Next)

	r = w.do("POST", "/v1/dead-letters/submissions-1-2/dismiss", `{"task":"c-2"}`)
	require.Equal(t, "redriven", r.json(t)["mark"].(map[string]any)["mark"], "an edited copy was submitted")
	require.Equal(t, 202, w.do("POST", "/v1/dead-letters/submissions-1-1/redrive", "").status, "what was dismissed can still be redriven")

	r = w.do("POST", "/v1/dead-letters/submissions-1-0/dismiss", `{"reason":"again"}`)
	require.Equal(t, "redriven", r.json(t)["mark"].(map[string]any)["mark"], "one that has a mark keeps it")
	require.NotContains(t, r.json(t), "value")
	require.NotContains(t, w.do("POST", "/v1/dead-letters/submissions-1-0/reopen", "").json(t), "mark")
	require.Equal(t, 200, w.do("POST", "/v1/dead-letters/submissions-1-0/reopen", "").status)
	_, keys = w.letters("open=true")
	require.Equal(t, []string{"a"}, keys)
	w.engine.Bury(events.Reports, events.Record{Partition: 1, Key: []byte("x"), Value: []byte("x"), Headers: []events.Header{{Key: events.HeaderType, Value: []byte(events.TypeReport)}, {Key: events.HeaderID, Value: []byte("r")}}}, "unreadable")
	require.Equal(t, 422, w.do("POST", "/v1/dead-letters/reports-1-0/redrive", "").status, "a report that cannot be read")

	r = w.do("POST", "/v1/dead-letters/submissions-1-2/dismiss", `{"reason":"`+strings.Repeat("x", 3000)+`","by":7}`)
	require.Equal(t, 422, r.status)
	p := r.problem(t)
	require.Len(t, p.Errors, 2)
	require.Equal(t, "/by", p.Errors[0].Pointer)
	require.Equal(t, 404, w.do("POST", "/v1/dead-letters/submissions-1-9/dismiss", "").status)
}
