package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon is far longer than an answer takes on a loaded machine, and far shorter than the timeout of a test that hangs.
const soon = 45 * time.Second

// world is an engine behind a real socket.
type world struct {
	t      *testing.T
	engine *apitest.Engine
	url    string
	client *http.Client
}

func setup(t *testing.T, change ...func(*api.Config)) *world {
	t.Helper()
	e := apitest.New()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &world{t: t, engine: e, url: e.Serve(t, change...), client: &http.Client{Transport: transport}}
}

type reply struct {
	status int
	header http.Header
	body   string
}

// twoStops matches a sentence that ends twice. Every test of a problem looks for it.
var twoStops = regexp.MustCompile(`[^.][.?!]\.(\s|"|$)`)

func (w *world) do(method, path, body string, headers ...string) reply {
	w.t.Helper()
	r, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	require.NoError(w.t, err)
	if method == http.MethodPost && body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	resp, err := w.client.Do(r)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	if resp.StatusCode >= 400 {
		require.NotRegexp(w.t, twoStops, string(b))
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func (r reply) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.body), &v), r.body)
	return v
}

func (r reply) problem(t *testing.T) *api.Problem {
	t.Helper()
	require.Equal(t, "application/problem+json", r.header.Get("Content-Type"), r.body)
	p := new(api.Problem)
	require.NoError(t, json.Unmarshal([]byte(r.body), p), r.body)
	require.Equal(t, r.status, p.Status)
	require.NotEmpty(t, p.Title)
	require.NotEmpty(t, p.Detail)
	require.NotEmpty(t, p.Instance)
	require.True(t, strings.HasPrefix(p.Type, "urn:sagalog:problem:"), p.Type)
	return p
}

const good = `{"workflow":"order","input":{"item":"lamp"}}`
