package httpagent_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/agent/httpagent"
	"github.com/sagalog/sagalog/events"
)

// granting runs a binding with OAuth whose token endpoint and service are the handlers.
func granting(t *testing.T, token, service http.HandlerFunc) *agenttest.Harness {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/token", token)
	mux.HandleFunc("/", service)
	env := map[string]string{"BASE": serve(t, mux.ServeHTTP), "CLIENT": "client-7", "SECRET": "s3cr3t-words"}
	all, err := httpagent.Parse("a.yaml", []byte(`
agent: a
http:
  base: "${ env.BASE }"
  oauth: {token_url: "${ env.BASE }/token", client_id: "${ env.CLIENT }", client_secret: "${ env.SECRET }", scopes: [read, write]}
do: {method: PUT, path: /x}
`), func(n string) (string, bool) { v, ok := env[n]; return v, ok })
	require.NoError(t, err)
	t.Cleanup(all[0].Close)
	r := agent.NewRegistry()
	all[0].Register(r)
	return agenttest.Start(t, r)
}

func answerToken(w http.ResponseWriter, token string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":3600}`, token)
}

func TestATokenIsFetchedOnceAndHiddenInOutputs(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int64
	h := granting(t, func(w http.ResponseWriter, r *http.Request) {
		fetched.Add(1)
		id, secret, _ := r.BasicAuth()
		if id != "client-7" || secret != "s3cr3t-words" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "read write" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answerToken(w, "token-0123456789")
	}, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Authorization")) })
	for range 3 {
		r := h.Do("a", nil)
		require.Equal(t, `"Bearer ${ env.the access token }"`, string(r.Output), "%+v", r.Error)
	}
	require.EqualValues(t, 1, fetched.Load())
}

func TestATokenThatCannotBeHadHasNoEffect(t *testing.T) {
	t.Parallel()
	var called atomic.Int64
	r := granting(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"invalid_client","error_description":"no client with s3cr3t-words"}`)
	}, func(http.ResponseWriter, *http.Request) { called.Add(1) }).Do("a", nil)
	require.Equal(t, events.ClassRetryable, r.Error.Class)
	require.Equal(t, events.EffectNone, r.Effect)
	require.Regexp(t, `^get a token from POST http://127\.0\.0\.1:\d+/token: answered 401 Unauthorized: no client with \$\{ env\.SECRET \}$`, r.Error.Message)
	require.Zero(t, called.Load())
}

// A kept token may have been revoked, so its 401 is retryable. A new one that is refused would be refused again.
func TestARevokedTokenIsReplaced(t *testing.T) {
	t.Parallel()
	var fetched, allowed atomic.Int64
	allowed.Store(1)
	h := granting(t, func(w http.ResponseWriter, _ *http.Request) {
		answerToken(w, fmt.Sprintf("token-number-%d", fetched.Add(1)))
	},
		func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != fmt.Sprintf("Bearer token-number-%d", allowed.Load()) {
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
	require.Nil(t, h.Do("a", nil).Error)
	allowed.Store(2)
	r := h.Do("a", nil)
	require.Equal(t, events.ClassRetryable, r.Error.Class)
	require.Equal(t, events.EffectNone, r.Effect)
	require.Nil(t, h.Do("a", nil).Error)
	allowed.Store(9)
	require.Equal(t, events.ClassRetryable, h.Do("a", nil).Error.Class)
	require.Equal(t, events.ClassPermanent, h.Do("a", nil).Error.Class)
}

func TestFaultsOfOAuthHavePlaces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"oauth: {token_url: ftp://x, client_id: a, client_secret: b}": "f.yaml:2:43: token_url is not an absolute",
		"oauth: {token_url: http://x/t, client_id: a}":                `f.yaml:2:31: key "client_secret" is missing`,
		"oauth: {scopes: read}":                                       "f.yaml:2:40: scopes is a list",
		"oauth: {secret: x}":                                          `unknown key "secret"`,
		"headers: {authorization: x}, oauth: {token_url: http://x/t, client_id: a, client_secret: b}": "oauth sets the header Authorization",
	} {
		_, err := httpagent.Parse("f.yaml", []byte("agent: a\nhttp: {base: http://x, "+text+"}\ndo: {method: GET, path: /}\n"),
			func(string) (string, bool) { return "", false })
		require.ErrorContains(t, err, want)
	}
}
