package api_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

const clientTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// submissionTraces numbers the spans of submissions.
type submissionTraces struct {
	mu    sync.Mutex
	begun int
	sent  []string
	ended map[string]string
}

func (s *submissionTraces) Submission(sent string, _ time.Time) (string, func(task, workflow string, status int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun++
	s.sent = append(s.sent, sent)
	trace := fmt.Sprintf("%s%016d-01", clientTrace[:36], s.begun)
	return trace, func(task, workflow string, status int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended[trace] = fmt.Sprint(task, " ", workflow, " ", status)
	}
}

// The record carries the context of the span, so that what follows belongs to it.
func TestTheRecordOfASubmissionCarriesItsSpan(t *testing.T) {
	t.Parallel()
	s := &submissionTraces{ended: map[string]string{}}
	w := setup(t, func(c *api.Config) { c.Traces = s })
	require.Equal(t, 202, w.do("PUT", "/v1/tasks/a", good, "traceparent", clientTrace).status)
	require.Equal(t, 404, w.do("PUT", "/v1/tasks/b", `{"workflow":"none"}`).status)
	require.Equal(t, 400, w.do("PUT", "/v1/tasks/c", "{").status)
	r := w.do("POST", "/v1/tasks", "{\"id\":\"d\",\"workflow\":\"order\",\"input\":{\"item\":\"x\"}}\n{\n{\"id\":\"e\",\"workflow\":\"order\",\"input\":{\"item\":\"y\"}}\n",
		"Content-Type", "application/x-ndjson", "traceparent", clientTrace)
	require.Equal(t, 200, r.status)
	require.Equal(t, []string{clientTrace, "", "", clientTrace, clientTrace}, s.sent)
	carried := map[string]string{}
	for _, in := range w.engine.Inputs(events.Submissions) {
		carried[string(in.Key)] = s.ended[in.Header(events.HeaderTraceparent)]
	}
	require.Equal(t, map[string]string{"a": "a order 202", "d": "d order 202", "e": "e order 202"}, carried)
	require.Equal(t, []string{"b none 404", "c  400"}, []string{s.ended[clientTrace[:36]+"0000000000000002-01"], s.ended[clientTrace[:36]+"0000000000000003-01"]})
}
