package access_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/access/accesstest"
	"github.com/stretchr/testify/require"
)

// issuer is an identity provider.
type issuer struct{ *accesstest.Issuer }

func newIssuer(t *testing.T) issuer { return issuer{accesstest.NewIssuer(t)} }

func (i issuer) gate(t *testing.T, change ...func(*access.OIDCConfig)) (*access.Gate, *bytes.Buffer) {
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
	c, err := g.Caller(with(i.Token(t, i.Key, jose.RS256, nil)))
	require.NoError(t, err)
	require.Equal(t, "anna@example.com", c.Name)
	require.Equal(t, access.Operator, c.Role, "the highest one of the groups")
	require.WithinDuration(t, time.Now().Add(time.Hour), c.Expires, time.Minute)
	c, err = g.Caller(with(i.Token(t, i.Key, jose.RS256, map[string]any{"groups": "staff", "email": nil})))
	require.NoError(t, err)
	require.Equal(t, "u-1", c.Name)
	require.Equal(t, access.Viewer, c.Role)
	nested, _ := i.gate(t, func(c *access.OIDCConfig) { c.RoleClaim = "realm_access.roles" })
	c, err = nested.Caller(with(i.Token(t, i.Key, jose.RS256, nil)))
	require.NoError(t, err)
	require.Equal(t, access.Admin, c.Role)
}

func TestNoOtherJWTIsValid(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g, log := i.gate(t)
	another := accesstest.Key(t)
	good := i.Token(t, i.Key, jose.RS256, nil)
	parts := strings.Split(good, ".")
	boss := strings.Split(i.Token(t, another, jose.RS256, map[string]any{"groups": "boss"}), ".")
	none := "eyJhbGciOiJub25lIn0." + parts[1] + "."
	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"expired":             {i.Token(t, i.Key, jose.RS256, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), access.ErrExpired},
		"not yet":             {i.Token(t, i.Key, jose.RS256, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), access.ErrUnknown},
		"another audience":    {i.Token(t, i.Key, jose.RS256, map[string]any{"aud": "grafana"}), access.ErrUnknown},
		"no audience":         {i.Token(t, i.Key, jose.RS256, map[string]any{"aud": nil}), access.ErrUnknown},
		"another issuer":      {i.Token(t, i.Key, jose.RS256, map[string]any{"iss": "https://evil.example"}), access.ErrUnknown},
		"another key":         {i.Token(t, another, jose.RS256, nil), access.ErrUnknown},
		"changed claims":      {parts[0] + "." + boss[1] + "." + parts[2], access.ErrUnknown},
		"no signature":        {none, access.ErrUnknown},
		"cut":                 {parts[0] + "." + parts[1] + ".", access.ErrUnknown},
		"another algorithm":   {i.Token(t, []byte(strings.Repeat("k", 32)), jose.HS256, nil), access.ErrUnknown},
		"no JWT":              {"x", access.ErrUnknown},
		"no group":            {i.Token(t, i.Key, jose.RS256, map[string]any{"groups": []string{"sales"}}), access.ErrNoRole},
		"no groups":           {i.Token(t, i.Key, jose.RS256, map[string]any{"groups": nil}), access.ErrNoRole},
		"a name of two lines": {i.Token(t, i.Key, jose.RS256, map[string]any{"email": "a\nb"}), access.ErrUnknown},
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
	i.Down.Store(true)
	g, log := i.gate(t)
	_, err := g.Caller(with(i.Token(t, i.Key, jose.RS256, nil)))
	require.ErrorIs(t, err, access.ErrNoAnswer)
	require.Contains(t, log.String(), i.URL)

	i.Down.Store(false)
	late, _ := i.gate(t)
	require.NoError(t, late.OIDC.Reach())
	i.Down.Store(true) // between its configuration and its keys
	_, err = late.Caller(with(i.Token(t, i.Key, jose.RS256, nil)))
	require.ErrorIs(t, err, access.ErrNoAnswer)
	i.Down.Store(false)
	_, err = late.Caller(with(i.Token(t, i.Key, jose.RS256, nil)))
	require.NoError(t, err)
}

func TestTokensOfUnknownKeysDoNotAskTheIdentityProviderEachTime(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g, _ := i.gate(t)
	another := accesstest.Key(t)
	began := time.Now()
	for range 50 {
		_, err := g.Caller(with(i.Token(t, another, jose.RS256, nil)))
		require.ErrorIs(t, err, access.ErrUnknown)
	}
	_, err := g.Caller(with(i.Token(t, i.Key, jose.RS256, nil)))
	require.NoError(t, err)
	require.LessOrEqual(t, i.Asked.Load(), 1+int64(time.Since(began)/(5*time.Second)))
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
