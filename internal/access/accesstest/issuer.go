package accesstest

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
)

// Issuer is an identity provider, with its key.
type Issuer struct {
	*httptest.Server
	Key *rsa.PrivateKey
	// Down makes it answer with errors. Asked counts the requests for its keys.
	Down  atomic.Bool
	Asked atomic.Int64
}

// NewIssuer starts an identity provider.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{Key: Key(t)}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		if i.Down.Load() {
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
		i.Asked.Add(1)
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.Key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// Key makes a key that no identity provider has.
func Key(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return key
}

// Token returns a token with these claims, and otherwise good ones.
func (i *Issuer) Token(t testing.TB, key any, alg jose.SignatureAlgorithm, change map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": i.URL, "aud": []string{"sagalog"}, "sub": "u-1", "email": "anna@example.com", "groups": []string{"staff", "engineers"},
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "realm_access": map[string]any{"roles": []string{"boss"}},
	}
	maps.Copy(claims, change)
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
