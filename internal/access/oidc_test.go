package access_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/sagalog/sagalog/internal/access"
	"github.com/stretchr/testify/require"
)

// issuer is an identity provider.
type issuer struct {
	*httptest.Server
	key   *rsa.PrivateKey
	down  atomic.Bool
	asked atomic.Int64 // for keys
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	i := &issuer{key: key}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		if i.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/a", "token_endpoint": i.URL + "/t", "jwks_uri": i.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// token returns a token with these claims, and otherwise good ones.
func (i *issuer) token(t *testing.T, key any, alg jose.SignatureAlgorithm, change map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": i.URL, "aud": []string{"sagalog"}, "sub": "u-1", "email": "anna@example.com", "groups": []string{"staff", "engineers"},
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "realm_access": map[string]any{"roles": []string{"boss"}},
	}
	for k, v := range change {
		claims[k] = v
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "k1"))
	require.NoError(t, err)
	payload, err := json.Marshal(claims)
	require.NoError(t, err)
	signed, err := signer.Sign(payload)
	require.NoError(t, err)
	text, err := signed.CompactSerialize()
	require.NoError(t, err)
	return text
}

func (i *issuer) gate(t *testing.T, change ...func(*access.OIDCConfig)) (*access.Gate, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	cfg := access.OIDCConfig{
		Issuer: i.URL, Audience: "sagalog", RoleClaim: "groups", NameClaim: "email",
		Roles: map[string]access.Role{"engineers": access.Operator, "staff": access.Viewer, "boss": access.Admin}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	o := access.NewOIDC(cfg)
	t.Cleanup(o.Close)
	return &access.Gate{OIDC: o}, &log
}

func TestATokenOfTheIdentityProviderIsValid(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g, _ := i.gate(t)
	c, err := g.Caller(with(i.token(t, i.key, jose.RS256, nil)))
	require.NoError(t, err)
	require.Equal(t, "anna@example.com", c.Name)
	require.Equal(t, access.Operator, c.Role, "the highest one of the groups")
	require.WithinDuration(t, time.Now().Add(time.Hour), c.Expires, time.Minute)
	c, err = g.Caller(with(i.token(t, i.key, jose.RS256, map[string]any{"groups": "staff", "email": nil})))
	require.NoError(t, err)
	require.Equal(t, "u-1", c.Name)
	require.Equal(t, access.Viewer, c.Role)
	nested, _ := i.gate(t, func(c *access.OIDCConfig) { c.RoleClaim = "realm_access.roles" })
	c, err = nested.Caller(with(i.token(t, i.key, jose.RS256, nil)))
	require.NoError(t, err)
	require.Equal(t, access.Admin, c.Role)
}

func TestNoOtherJWTIsValid(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g, log := i.gate(t)
	another, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	good := i.token(t, i.key, jose.RS256, nil)
	parts := strings.Split(good, ".")
	boss := strings.Split(i.token(t, another, jose.RS256, map[string]any{"groups": "boss"}), ".")
	none := "eyJhbGciOiJub25lIn0." + parts[1] + "."
	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"expired":             {i.token(t, i.key, jose.RS256, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), access.ErrExpired},
		"not yet":             {i.token(t, i.key, jose.RS256, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), access.ErrUnknown},
		"another audience":    {i.token(t, i.key, jose.RS256, map[string]any{"aud": "grafana"}), access.ErrUnknown},
		"no audience":         {i.token(t, i.key, jose.RS256, map[string]any{"aud": nil}), access.ErrUnknown},
		"another issuer":      {i.token(t, i.key, jose.RS256, map[string]any{"iss": "https://evil.example"}), access.ErrUnknown},
		"another key":         {i.token(t, another, jose.RS256, nil), access.ErrUnknown},
		"changed claims":      {parts[0] + "." + boss[1] + "." + parts[2], access.ErrUnknown},
		"no signature":        {none, access.ErrUnknown},
		"cut":                 {parts[0] + "." + parts[1] + ".", access.ErrUnknown},
		"another algorithm":   {i.token(t, []byte(strings.Repeat("k", 32)), jose.HS256, nil), access.ErrUnknown},
		"no JWT":              {"x", access.ErrUnknown},
		"no group":            {i.token(t, i.key, jose.RS256, map[string]any{"groups": []string{"sales"}}), access.ErrNoRole},
		"no groups":           {i.token(t, i.key, jose.RS256, map[string]any{"groups": nil}), access.ErrNoRole},
		"a name of two lines": {i.token(t, i.key, jose.RS256, map[string]any{"email": "a\nb"}), access.ErrUnknown},
		"one of ours":         {"sagalog_" + good, access.ErrUnknown},
	} {
		_, err := g.Caller(with(c.token))
		require.ErrorIs(t, err, c.want, name)
	}
	for _, part := range parts {
		require.NotContains(t, log.String(), part, "no token is logged")
	}
}

func TestAnIdentityProviderMayBeDown(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.down.Store(true)
	g, log := i.gate(t)
	_, err := g.Caller(with(i.token(t, i.key, jose.RS256, nil)))
	require.ErrorIs(t, err, access.ErrNoAnswer)
	require.Contains(t, log.String(), i.URL)

	i.down.Store(false)
	late, _ := i.gate(t)
	require.NoError(t, late.OIDC.Reach())
	i.down.Store(true) // between its configuration and its keys
	_, err = late.Caller(with(i.token(t, i.key, jose.RS256, nil)))
	require.ErrorIs(t, err, access.ErrNoAnswer)
	i.down.Store(false)
	_, err = late.Caller(with(i.token(t, i.key, jose.RS256, nil)))
	require.NoError(t, err)
}

func TestTokensOfUnknownKeysDoNotAskTheIdentityProviderEachTime(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g, _ := i.gate(t)
	another, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	began := time.Now()
	for range 50 {
		_, err := g.Caller(with(i.token(t, another, jose.RS256, nil)))
		require.ErrorIs(t, err, access.ErrUnknown)
	}
	_, err = g.Caller(with(i.token(t, i.key, jose.RS256, nil)))
	require.NoError(t, err)
	require.LessOrEqual(t, i.asked.Load(), 1+int64(time.Since(began)/(5*time.Second)))
}

func TestARoleOfAGroupIsGivenAsText(t *testing.T) {
	t.Parallel()
	group, role, err := access.ParseRoleOf("cn=ops,dc=x=admin")
	require.NoError(t, err)
	require.Equal(t, "cn=ops,dc=x", group)
	require.Equal(t, access.Admin, role)
	for _, text := range []string{"", "x", "=admin", "x=root"} {
		_, _, err := access.ParseRoleOf(text)
		require.Error(t, err, text)
	}
}
