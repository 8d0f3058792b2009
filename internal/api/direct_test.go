package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// Each request is answered twice, by two engines. One engine gets it as programs send it, and answers without the mux
// and huma. The other gets it with an Accept preference that only huma takes into account.
func TestAPlainSubmissionIsAnsweredAsTheMuxAndHumaWould(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
	}{
		"accepted":             {"PUT", "/v1/tasks/new", good, nil, 202},
		"accepted by POST":     {"POST", "/v1/tasks", `{"id":"new","workflow":"order","input":{"item":"x"}}`, nil, 202},
		"as a form":            {"POST", "/v1/tasks", `{"id":"new","workflow":"order","input":{"item":"x"}}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"without a type":       {"POST", "/v1/tasks", `{"id":"new","workflow":"order","input":{"item":"x"}}`, []string{"Content-Type", ""}, 415},
		"with a charset":       {"PUT", "/v1/tasks/new", good, []string{"Content-Type", "application/json; charset=utf-8"}, 202},
		"with a trace":         {"PUT", "/v1/tasks/new", good, []string{"Traceparent", trace}, 202},
		"known":                {"PUT", "/v1/tasks/known", good, nil, 200},
		"conflict":             {"PUT", "/v1/tasks/known", `{"workflow":"order","input":{"item":"other"}}`, nil, 409},
		"ID of many bytes":     {"PUT", "/v1/tasks/%E6%97%A5%20%22%3C%26%2F%E2%80%A8", good, nil, 202},
		"ID that is a star":    {"PUT", "/v1/tasks/*", good, nil, 202},
		"ID like a pattern":    {"PUT", "/v1/tasks/%7Bid%7D", good, nil, 202},
		"ID with a percent":    {"PUT", "/v1/tasks/a%2525", good, nil, 202},
		"ID that is a dot":     {"PUT", "/v1/tasks/%2E", good, nil, 422},
		"ID of a control":      {"PUT", "/v1/tasks/a%00b", good, nil, 422},
		"ID that is not UTF-8": {"PUT", "/v1/tasks/a%FFb", good, nil, 422},
		"ID too long":          {"PUT", "/v1/tasks/" + strings.Repeat("x", 256), good, nil, 422},
		"other ID":             {"PUT", "/v1/tasks/new", `{"id":"old","workflow":"order","input":{"item":"x"}}`, nil, 422},
		"path below":           {"PUT", "/v1/tasks/a/b", good, nil, 404},
		"path with an end":     {"PUT", "/v1/tasks/a/", good, nil, 404},
		"no ID":                {"PUT", "/v1/tasks/", good, nil, 404},
		"unknown parameter":    {"PUT", "/v1/tasks/new?x=1", good, nil, 422},
		"question mark":        {"PUT", "/v1/tasks/new?", good, nil, 202},
		"not JSON":             {"PUT", "/v1/tasks/new", "{\n \"workflow\": ]", nil, 400},
		"two faults":           {"PUT", "/v1/tasks/new", `{"workflw":"order","priority":"high"}`, nil, 422},
		"unknown workflow":     {"PUT", "/v1/tasks/new", `{"workflow":"ordre","input":{"item":"x"}}`, nil, 404},
		"faulty input":         {"POST", "/v1/tasks", `{"workflow":"order","input":{"item":1}}`, nil, 422},
		"too large":            {"PUT", "/v1/tasks/new", strings.Repeat(" ", 5000) + good, nil, 413},
		"empty":                {"PUT", "/v1/tasks/new", "", nil, 400},
		"other media type":     {"PUT", "/v1/tasks/new", good, []string{"Content-Type", "text/plain"}, 415},
		"other site":           {"PUT", "/v1/tasks/new", good, []string{"Origin", "https://evil.example"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := map[string]reply{}
			for _, accept := range []string{"", "*/*", "application/json", "application/json;q=0.9"} {
				w := setup(t)
				require.Equal(t, http.StatusAccepted, w.do("PUT", "/v1/tasks/known", good).status)
				headers := c.headers
				if accept != "" {
					headers = append(headers[:len(headers):len(headers)], "Accept", accept)
				}
				r := w.do(c.method, c.path, c.body, headers...)
				r.header.Del("Date")
				answers[accept] = r
			}
			general := answers["application/json;q=0.9"]
			require.Equal(t, c.status, general.status, general.body)
			for accept, r := range answers {
				require.Equal(t, general, r, "Accept: %s", accept)
			}
		})
	}
}

func TestASubmissionInChunksIsReadUpToItsLimit(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *api.Config) { c.SubmissionBytes = len(good) })
	put := func(body string) reply {
		r, err := http.NewRequest("PUT", w.url+"/v1/tasks/new", struct{ *strings.Reader }{strings.NewReader(body)})
		require.NoError(t, err)
		r.ContentLength = -1
		resp, err := w.client.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		return reply{status: resp.StatusCode}
	}
	require.Equal(t, 413, put(good+" ").status)
	require.Equal(t, 202, put(good).status)
}
