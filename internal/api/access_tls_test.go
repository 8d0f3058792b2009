package api_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/access/accesstest"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// rolesByCall is who may do what, written down apart from the program. A new call needs a row here.
var rolesByCall = map[access.Role]string{
	access.Anyone: "GET /healthz, GET /readyz, POST /v1/reports/{ticket}",
	access.Viewer: "GET /v1/whoami, GET /v1/info, GET /v1/agents, GET /v1/partitions, GET /v1/partitions/{partition}/takeovers, GET /v1/tasks, " +
		"GET /v1/tasks/{id}, GET /v1/tasks/{id}/history, GET /v1/tasks/{id}/steps/{step}/items, GET /v1/requests/{request}, GET /v1/counts, GET /v1/workflows, GET /v1/workflows/{name}, " +
		"GET /v1/dead-letters, GET /v1/dead-letters/{id}, GET /v1/jobs, GET /v1/jobs/{id}, GET /v1/jobs/{id}/results, GET /v1/schedules, " +
		"GET /v1/schedules/{name}, GET /v1/schedules/{name}/fires, GET /v1/limits, GET /v1/limits/{name}, GET /v1/limits/{name}/waiting, " +
		"GET /v1/settings, GET /v1/losses, GET /v1/alerts, GET /v1/stream, GET /v1/stats, GET /v1/acts, GET /v1/nodes",
	access.Submitter: "POST /v1/tasks, PUT /v1/tasks/{id}, POST /v1/tasks/{id}/signal, POST /v1/workflows/{name}/preview",
	access.Operator: "POST /v1/tasks/{id}/cancel, POST /v1/tasks/{id}/pause, POST /v1/tasks/{id}/resume, POST /v1/tasks/{id}/retry, " +
		"POST /v1/tasks/{id}/skip, POST /v1/tasks/{id}/complete, POST /v1/tasks/{id}/fail, POST /v1/tasks/{id}/rerun, POST /v1/tasks/{id}/terminate, " +
		"POST /v1/jobs, POST /v1/jobs/{id}/stop, POST /v1/dead-letters/{id}/redrive, POST /v1/dead-letters/{id}/dismiss, POST /v1/dead-letters/{id}/reopen, POST /v1/agents/{name}/pause, POST /v1/agents/{name}/resume, " +
		"POST /v1/limits/{name}/pause, POST /v1/limits/{name}/resume, POST /v1/schedules/{name}/pause, POST /v1/schedules/{name}/resume, " +
		"POST /v1/schedules/{name}/trigger, POST /v1/schedules/{name}/backfill, PUT /v1/demo/break, DELETE /v1/demo/break, POST /v1/alerts/{id}/acknowledge",
	access.Admin: "PUT /v1/workflows/{name}, DELETE /v1/workflows/{name}, DELETE /v1/workflows/{name}/versions/{version}, PUT /v1/schedules/{name}, " +
		"DELETE /v1/schedules/{name}, PUT /v1/limits/{name}, DELETE /v1/limits/{name}, PUT /v1/settings, POST /v1/settings/upgrade, " +
		"POST /v1/accepted-losses, POST /v1/checkpoints",
}

// asked is a request for each call. What is in braces must have a value here.
var asked = strings.NewReplacer("{id}", "x%2Fy", "{name}", "x", "{ticket}", "x", "{request}", "x", "{version}", "1", "{step}", "x", "{partition}", "0")

// beyondLoopback is an API with TLS that listens on all addresses of the machine, with tokens of a file and of an identity provider.
func beyondLoopback(t *testing.T) (w *world, g *guarded, i *accesstest.Issuer) {
	t.Helper()
	g, i = guard(t), accesstest.NewIssuer(t)
	groups := map[string]access.Role{}
	for _, role := range access.Roles {
		groups["all-"+string(role)] = role
	}
	g.gate.OIDC = access.NewOIDC(access.OIDCConfig{
		Issuer: i.URL, Audience: "sagalog", RoleClaim: "groups", NameClaim: "email", Roles: groups, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(g.gate.OIDC.Close)
	cert, key := accesstest.Certificate(t, t.TempDir(), 1)
	served, err := access.OpenCertificate(cert, key, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	w = setup(t, g.on, func(c *api.Config) { c.TLS, c.Addr = served.Config(), "0.0.0.0:0" })
	text, err := os.ReadFile(cert)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(text))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "127.0.0.1"}}
	t.Cleanup(transport.CloseIdleConnections)
	w.client = &http.Client{Transport: transport}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(w.url, "https://"))
	require.NoError(t, err)
	w.url = "https://" + net.JoinHostPort(ownAddress(t), port)
	return w, g, i
}

// ownAddress is an address of this machine, if possible one that others reach.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}

// described are the calls of the OpenAPI document.
func (w *world) described() (names []string) {
	w.t.Helper()
	var doc struct {
		Paths map[string]map[string]any
	}
	require.NoError(w.t, json.Unmarshal([]byte(w.do("GET", "/openapi.json", "").body), &doc))
	for path, item := range doc.Paths {
		for method := range item {
			names = append(names, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(names)
	return names
}

// Each call of the document, over TLS and from beyond loopback: with tokens of every role, of a file and of an identity provider, and with
// those of nobody.
func TestTheTableOfRolesHoldsOverTLS(t *testing.T) {
	t.Parallel()
	w, g, i := beyondLoopback(t)
	table := map[string]access.Role{}
	for role, names := range rolesByCall {
		for name := range strings.SplitSeq(names, ", ") {
			table[name] = role
		}
	}
	require.Equal(t, w.described(), slices.Sorted(maps.Keys(table)), "the calls of the OpenAPI document, and those of rolesByCall above")

	jwt := func(key any, change map[string]any) string { return i.Token(t, key, jose.RS256, change) }
	admins := map[string]any{"groups": []string{"all-admin"}}
	with := func(claim string, value any) map[string]any {
		return map[string]any{"groups": []string{"all-admin"}, claim: value}
	}
	signed := strings.Split(jwt(i.Key, map[string]any{"groups": []string{"all-viewer"}}), ".")
	lifted := strings.Split(jwt(accesstest.Key(t), admins), ".")
	expired, err := access.Create(g.file, access.New{Name: "was", Role: access.Admin, For: time.Hour, Now: time.Now().Add(-2 * time.Hour)})
	require.NoError(t, err)
	g.gate.Tokens, err = access.OpenTokens(g.file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	refused := map[string]string{
		"forged":                             g.tokens[access.Admin][:len(g.tokens[access.Admin])-1] + "~",
		"expired":                            expired,
		"forged, of an identity provider":    jwt(accesstest.Key(t), admins),
		"with changed claims":                signed[0] + "." + lifted[1] + "." + signed[2],
		"unsigned":                           "eyJhbGciOiJub25lIn0." + lifted[1] + ".",
		"expired, of an identity provider":   jwt(i.Key, with("exp", time.Now().Add(-time.Minute).Unix())),
		"for another audience":               jwt(i.Key, with("aud", "grafana")),
		"of another issuer":                  jwt(i.Key, with("iss", "https://evil.example")),
		"that a node would give to a caller": "admin root",
	}
	given := map[string]access.Role{}
	for _, role := range access.Roles {
		given[g.tokens[role]] = role
		given[jwt(i.Key, map[string]any{"groups": []string{"all-" + string(role)}})] = role
	}
	nobody := jwt(i.Key, map[string]any{"groups": []string{"sales"}})
	require.Contains(t, w.do("GET", "/v1/whoami", "", "Authorization", "Bearer "+nobody).problem(t).Detail, "none of its groups has a role here", "which the page shows")
	for name, need := range table {
		method, path, _ := strings.Cut(name, " ")
		path = asked.Replace(path)
		require.NotContains(t, path, "{", "give it a value in asked")
		ask := func(token string) reply { return w.do(method, path, "", "Authorization", "Bearer "+token) }
		if need == access.Anyone {
			require.NotContains(t, []int{401, 403}, w.do(method, path, "").status, name)
			continue
		}
		require.Equal(t, 401, w.do(method, path, "").status, "%s without a token", name)
		for kind, token := range refused {
			r := ask(token)
			require.Equal(t, 401, r.status, "%s with a token %s", name, kind)
			require.NotContains(t, r.body, token)
		}
		require.Equal(t, 403, ask(nobody).status, "%s with a token without a role", name)
		for token, role := range given {
			if role.Includes(need) {
				require.NotContains(t, []int{401, 403}, ask(token).status, "%s as %s", name, role)
			} else {
				require.Equal(t, 403, ask(token).status, "%s as %s", name, role)
			}
		}
	}
}

// A site whose name leads here, and a page of another site, make a browser ask nothing, whatever they ask and whoever sits before it.
func TestSitesAreRefusedBeyondLoopback(t *testing.T) {
	t.Parallel()
	w, g, _ := beyondLoopback(t)
	admin := g.bearer(access.Admin)
	for _, name := range w.described() {
		method, path, _ := strings.Cut(name, " ")
		path = asked.Replace(path)
		for _, host := range []string{"evil.example", "evil.example:8642", "127.0.0.1.evil.example", "localhost.evil.example"} {
			r := w.do(method, path, "", append(admin, "Host", host)...)
			require.Equal(t, 421, r.status, "%s for %s", name, host)
			require.Equal(t, "foreign-host", r.problem(t).Code())
		}
		if method == http.MethodGet {
			continue // it changes nothing, and the browser keeps its answer from the other site
		}
		for _, by := range [][2]string{{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
			r := w.do(method, path, "", append(admin, by[:]...)...)
			require.Equal(t, 403, r.status, "%s with %s", name, by)
			require.Equal(t, "cross-origin", r.problem(t).Code())
		}
	}
	require.Empty(t, w.do("GET", "/v1/info", "", append(admin, "Origin", "https://evil.example")...).header.Get("Access-Control-Allow-Origin"))
}
