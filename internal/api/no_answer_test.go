package api_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// While a leader moves, an answer that depends on a broker is a 503 that says when to ask again. An error that does not pass is a 500.
func TestBrokersThatDoNotAnswerAre503(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.Manual = true
	w.do("PUT", "/v1/tasks/x", good)
	w.do("PUT", "/v1/tasks/x", `{"workflow":"order","input":{"item":"desk"}}`)
	w.engine.Judge()
	w.engine.Manual = true
	rejected := w.do("POST", "/v1/tasks/x/retry", "").json(t)["token"].(string)
	w.engine.Finish("x")
	w.engine.Judge()
	letter := fmt.Sprintf("/v1/dead-letters/submissions-%d-0", events.Home("x", 4))
	require.Equal(t, 200, w.do("GET", letter, "").status)
	calls := []struct{ name, method, path, body string }{
		{"a cancel of a task that is not known here yet", "POST", "/v1/tasks/y/cancel", ""},
		{"a retry of one", "POST", "/v1/tasks/y/retry", ""},
		{"a read of a rejected input", "GET", "/v1/tasks/x?token=" + rejected, ""},
		{"a history", "GET", "/v1/tasks/x/history", ""},
		{"the dead letters", "GET", "/v1/dead-letters", ""},
		{"a dead letter", "GET", letter, ""},
		{"a dead letter sent again", "POST", letter + "/redrive", ""},
		{"a dead letter dismissed", "POST", letter + "/dismiss", ""},
		{"a submission for a workflow that is not known here yet", "PUT", "/v1/tasks/n", `{"workflow":"new"}`},
		{"a workflow", "GET", "/v1/workflows/new", ""},
		{"a definition", "PUT", "/v1/workflows/new", "workflow: new\n"},
	}
	for _, c := range []struct {
		err    error
		status int
		code   string
		retry  string
	}{
		{fmt.Errorf("%w: list offsets: not leader", api.ErrNoAnswer), 503, "unavailable", "1"},
		{errors.New("the disk is broken"), 500, "internal", ""},
	} {
		w.engine.Silence(c.err)
		for _, call := range calls {
			r := w.do(call.method, call.path, call.body)
			require.Equal(t, c.status, r.status, "%s: %s", call.name, r.body)
			p := r.problem(t)
			require.Equal(t, c.code, p.Code(), call.name)
			require.Equal(t, c.retry, r.header.Get("Retry-After"), call.name)
			require.NotContains(t, p.Detail, c.err.Error())
			if c.status == 503 {
				require.Contains(t, p.Detail, "brokers do not answer", call.name)
				require.Equal(t, call.method == "PUT" && call.path == "/v1/workflows/new", p.Detail != "The Kafka brokers do not answer at the moment. Ask again.", call.name)
			}
		}
	}
	require.Len(t, w.engine.Inputs(events.Reports), 1, "no request was appended meanwhile")
	w.engine.Silence(nil)
	require.Equal(t, 404, w.do("POST", "/v1/tasks/y/cancel", "").status)
	require.Equal(t, 200, w.do("GET", "/v1/tasks/x/history", "").status)
}
