package api_test

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

// guarded is an API that needs tokens: one of each role, which has the role's name.
type guarded struct {
	file   string
	tokens map[access.Role]string
	gate   *access.Gate
}

const nodeKey = "0123456789abcdef0123456789abcdef"

func guard(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{file: filepath.Join(t.TempDir(), "tokens.json"), tokens: map[access.Role]string{}}
	for _, role := range access.Roles {
		text, err := access.Create(g.file, access.New{Name: "the-" + string(role), Role: role, For: time.Hour, Now: time.Now()})
		require.NoError(t, err)
		g.tokens[role] = text
	}
	g.gate = g.of(t, nodeKey)
	return g
}

func (g *guarded) of(t *testing.T, key string) *access.Gate {
	t.Helper()
	tokens, err := access.OpenTokens(g.file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	peers, err := access.NewPeers("test", key)
	require.NoError(t, err)
	return &access.Gate{Tokens: tokens, Peers: peers}
}

func (g *guarded) on(c *api.Config) { c.Access = g.gate }

// nodes are two nodes that need tokens, of which the second owns all partitions.
func (g *guarded) nodes(t *testing.T) *nodes {
	t.Helper()
	n := &nodes{t: t, engine: apitest.New()}
	for _, name := range []string{"a", "b"} {
		n.join(name, func(c *api.Config) { c.Access = g.of(t, nodeKey) })
	}
	for p := range int32(apitest.Partitions) {
		n.move(p, n.members[1])
	}
	return n
}

func (g *guarded) bearer(role access.Role) []string {
	return []string{"Authorization", "Bearer " + g.tokens[role]}
}

// Every call that the document describes, as each role and as nobody.
func TestEveryCallHasARole(t *testing.T) {
	t.Parallel()
	g := guard(t)
	w := setup(t, g.on)
	var doc struct {
		Paths map[string]map[string]struct {
			Role     access.Role           `json:"x-sagalog-role"`
			Security []map[string][]string `json:"security"`
		}
		Components struct{ SecuritySchemes map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(w.do("GET", "/openapi.json", "").body), &doc))
	require.Contains(t, doc.Components.SecuritySchemes, "bearer")
	require.NotContains(t, setup(t).do("GET", "/openapi.json", "").body, `"security":`, "while access is off, no call needs a token")
	asked := map[access.Role]int{}
	for path, item := range doc.Paths {
		for method, op := range item {
			method, name := strings.ToUpper(method), method+" "+path
			require.True(t, op.Role == access.Anyone || access.Admin.Includes(op.Role), "%s has no role: add it to calls (access.go)", name)
			require.Equal(t, op.Role != access.Anyone, len(op.Security) > 0, name)
			require.Equal(t, method == "GET", op.Role == access.Viewer || op.Role == access.Anyone && method == "GET", name)
			asked[op.Role]++
			uri := strings.NewReplacer("{id}", "x%2Fy", "{name}", "x", "{ticket}", "x", "{request}", "x", "{version}", "1", "{partition}", "0").Replace(path)
			r := w.do(method, uri, "")
			if op.Role == access.Anyone {
				require.NotContains(t, []int{401, 403}, r.status, name)
				continue
			}
			require.Equal(t, 401, r.status, name)
			require.Equal(t, "unauthorized", r.problem(t).Code())
			require.Equal(t, `Bearer realm="sagalog"`, r.header.Get("WWW-Authenticate"))
			for _, role := range access.Roles {
				r := w.do(method, uri, "", g.bearer(role)...)
				if role.Includes(op.Role) {
					require.NotContains(t, []int{401, 403}, r.status, "%s as %s: %s", name, role, r.body)
					continue
				}
				require.Equal(t, 403, r.status, "%s as %s", name, role)
				require.Equal(t, "forbidden", r.problem(t).Code())
				require.Contains(t, r.problem(t).Detail, "needs the role "+string(op.Role)+", and the-"+string(role)+" has the role "+string(role))
			}
		}
	}
	for role, least := range map[access.Role]int{access.Anyone: 3, access.Viewer: 20, access.Submitter: 4, access.Operator: 20, access.Admin: 8} {
		require.GreaterOrEqual(t, asked[role], least, role)
	}
}

func TestWhatIsNoCallNeedsATokenToo(t *testing.T) {
	t.Parallel()
	g := guard(t)
	w := setup(t, g.on, func(c *api.Config) {
		c.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	})
	viewer := g.bearer(access.Viewer)
	for _, c := range []struct {
		method, path    string
		without, viewer int
	}{
		{"GET", "/", 204, 204},
		{"GET", "/tasks/x", 204, 204},
		{"HEAD", "/v1/tasks", 401, 200},
		{"GET", "/metrics", 401, 200},
		{"GET", "/healthz", 200, 200},
		{"GET", "/readyz", 200, 200},
		{"GET", "/openapi.yaml", 200, 200},
		{"GET", "/v1/nothing", 401, 404},
		{"BREW", "/v1/tasks", 401, 405},
		{"OPTIONS", "/v1/tasks", 401, 405},
		{"GET", "/v1//tasks", 401, 404},
		{"GET", "/v1/../v1/tasks", 401, 404},
		{"PUT", "/v1/tasks/x", 401, 403},
		{"PUT", "/v1/tasks/%2F", 401, 403},
		{"PUT", "/v1/tasks/x/", 401, 404},
		{"POST", "/v1/reports/x", 404, 404},
	} {
		require.Equal(t, c.without, w.do(c.method, c.path, "").status, c.method+" "+c.path)
		require.Equal(t, c.viewer, w.do(c.method, c.path, "", viewer...).status, c.method+" "+c.path)
	}
	bulk := []string{"Content-Type", "application/x-ndjson"}
	require.Equal(t, 401, w.do("POST", "/v1/tasks", good, bulk...).status)
	require.Equal(t, 403, w.do("POST", "/v1/tasks", good, append(viewer, bulk...)...).status)
	require.Equal(t, 200, w.do("POST", "/v1/tasks", good, append(g.bearer(access.Submitter), bulk...)...).status)
	require.Equal(t, 202, w.do("PUT", "/v1/tasks/direct", good, append(g.bearer(access.Submitter), "Content-Type", "application/json")...).status)
	metrics := w.do("GET", "/metrics", "", viewer...).body
	require.Contains(t, metrics, `sagalog_api_requests_total{code="401",method="GET",route="/metrics"} 1`)
	for _, token := range []string{"x", g.tokens[access.Viewer] + "x", g.file} {
		r := w.do("GET", "/v1/tasks", "", "Authorization", "Bearer "+token)
		require.Equal(t, 401, r.status)
		require.NotContains(t, r.body, "Bearer "+token)
	}
}

func TestWhoamiNamesTheToken(t *testing.T) {
	t.Parallel()
	g := guard(t)
	w := setup(t, g.on)
	me := w.do("GET", "/v1/whoami", "", g.bearer(access.Operator)...).json(t)
	require.Equal(t, "the-operator", me["name"])
	require.Equal(t, "operator", me["role"])
	require.Equal(t, "on", me["access"])
	expires, err := time.Parse(time.RFC3339, me["expires"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), expires, time.Minute)
	require.Equal(t, map[string]any{"role": "admin", "access": "off"}, setup(t).do("GET", "/v1/whoami", "").json(t))
}

func TestTheNameOfTheTokenStandsInTheFacts(t *testing.T) {
	t.Parallel()
	g := guard(t)
	w := setup(t, g.on)
	operator, admin := g.bearer(access.Operator), g.bearer(access.Admin)
	require.Equal(t, 202, w.do("PUT", "/v1/tasks/x", good, admin...).status)
	r := w.do("POST", "/v1/tasks/x/cancel?wait=1s", `{"reason":"r"}`, operator...)
	require.Equal(t, 200, r.status, r.body)
	require.Contains(t, w.do("GET", "/v1/tasks/x/history", "", operator...).body, `"by":"the-operator"`)
	require.Equal(t, 200, w.do("POST", "/v1/agents/stock/pause", `{"by":"mallory"}`, operator...).status)
	require.Contains(t, w.do("GET", "/v1/agents", "", operator...).body, `"by":"the-operator"`)
	job := w.do("POST", "/v1/jobs", `{"verb":"cancel","filter":{"all":true},"by":"mallory"}`, operator...)
	require.Equal(t, "the-operator", job.json(t)["by"], job.body)
	require.Equal(t, 200, w.do("PUT", "/v1/workflows/fine?by=mallory", `{"workflow":"fine","steps":{"a":{"agent":"a"}}}`, admin...).status)
	require.Contains(t, w.do("GET", "/v1/workflows/fine", "", admin...).body, `"applied_by":"the-admin"`)
	settings := w.do("PUT", "/v1/settings", `{"settings":{"remember_for":"48h"},"by":"mallory"}`, admin...)
	require.Contains(t, settings.body, `"by":"the-admin"`)
	require.NotContains(t, settings.body, "mallory")
}

func TestAStreamEndsWhenItsTokenIsRevoked(t *testing.T) {
	t.Parallel()
	g := guard(t)
	w := setup(t, g.on)
	require.Equal(t, 202, w.do("PUT", "/v1/tasks/x", good, g.bearer(access.Admin)...).status)
	r, err := http.NewRequest("GET", w.url+"/v1/tasks/x/history", nil)
	require.NoError(t, err)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Authorization", "Bearer "+g.tokens[access.Viewer])
	resp, err := w.client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	require.True(t, lines.Scan(), "the stream has begun")
	require.NoError(t, access.Revoke(g.file, "the-viewer"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() { // until the server ends it
		}
	}()
	select {
	case <-ended:
	case <-time.After(soon):
		require.Fail(t, "the stream goes on")
	}
}

// A job was allowed when it was opened, and the nodes that carry it out may not know tokens at all: it goes on under the name of its token
// when that is revoked. Only others can stop it.
func TestAJobGoesOnUnderTheNameOfARevokedToken(t *testing.T) {
	t.Parallel()
	g := guard(t)
	w := setup(t, g.on)
	operator, admin := g.bearer(access.Operator), g.bearer(access.Admin)
	require.Equal(t, 202, w.do("POST", "/v1/jobs", `{"id":"j","verb":"cancel","filter":{"all":true}}`, operator...).status)
	require.NoError(t, access.Revoke(g.file, "the-operator"))
	var err error
	g.gate.Tokens, err = access.OpenTokens(g.file, slog.New(slog.DiscardHandler)) // at once
	require.NoError(t, err)
	require.Equal(t, 401, w.do("POST", "/v1/jobs/j/stop", `{}`, operator...).status)
	job := w.do("GET", "/v1/jobs/j", "", admin...).json(t)
	require.Equal(t, "the-operator", job["by"])
	require.NotContains(t, job, "stopped_by")
	require.NotContains(t, []any{"stopping", "stopped"}, job["state"])
	require.NotContains(t, []int{401, 403}, w.do("POST", "/v1/jobs/j/stop", `{"reason":"its token is revoked"}`, admin...).status)
}

func TestANodePassesOnWhoCalls(t *testing.T) {
	t.Parallel()
	g := guard(t)
	n := g.nodes(t)
	a, b := n.members[0], n.members[1]
	operator, viewer := g.bearer(access.Operator), g.bearer(access.Viewer)
	require.Equal(t, 202, a.do("PUT", "/v1/tasks/x", good, g.bearer(access.Submitter)...).status)
	require.Equal(t, 200, a.do("GET", "/v1/tasks/x?wait=1ms", "", viewer...).status)
	require.Len(t, a.do("GET", "/v1/tasks", "", viewer...).json(t)["tasks"], 1)
	require.Equal(t, 403, a.do("POST", "/v1/tasks/x/cancel", `{}`, viewer...).status)
	r := a.do("POST", "/v1/tasks/x/cancel?wait=1s", `{"reason":"r"}`, operator...)
	require.Equal(t, 200, r.status, r.body)
	require.Contains(t, a.do("GET", "/v1/tasks/x/history", "", viewer...).body, `"by":"the-operator"`)

	// Nobody else can speak for a node.
	forged := b.do("POST", "/v1/tasks/x/pause", `{}`, "Sagalog-Forwarded", apitest.NamespaceID+"/b", "Sagalog-Caller", "admin root", "Sagalog-Signature", "1 00 00")
	require.Equal(t, 503, forged.status)
	require.Contains(t, forged.body, "--node-key-file")
	require.Equal(t, 503, b.do("GET", "/v1/tasks/x", "", append(viewer, "Sagalog-Forwarded", apitest.NamespaceID+"/b")...).status)
}

func TestNodesWithDifferentKeysSayWhatToDo(t *testing.T) {
	t.Parallel()
	g := guard(t)
	n := &nodes{t: t, engine: apitest.New()}
	n.join("a", func(c *api.Config) { c.Access = g.of(t, nodeKey) })
	n.join("b", func(c *api.Config) { c.Access = g.of(t, "") })
	for p := range int32(apitest.Partitions) {
		n.move(p, n.members[1])
	}
	r := n.members[0].do("GET", "/v1/tasks/x", "", g.bearer(access.Viewer)...)
	require.Equal(t, 503, r.status)
	require.Contains(t, r.problem(t).Detail, "--node-key-file")
}
