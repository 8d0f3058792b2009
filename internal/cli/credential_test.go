package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommandsSendTheirToken(t *testing.T) {
	var seen atomic.Pointer[string]
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Get("Authorization")
		seen.Store(&given)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"status":401,"title":"Unauthorized","detail":"The token is not valid here."}`))
	}))
	defer api.Close()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("from-file\n"), 0o600))
	require.NoError(t, os.WriteFile(file+"2", []byte("two\ntokens"), 0o600))

	r := offline("whoami", "--api", api.URL)
	require.Equal(t, 1, r.code)
	require.Empty(t, *seen.Load())
	require.Contains(t, r.err, "The token is not valid here. Commands send the token in the file of --token-file, or that in $SAGALOG_TOKEN.")
	t.Setenv("SAGALOG_TOKEN", "from-variable")
	offline("task", "list", "--api", api.URL)
	require.Equal(t, "Bearer from-variable", *seen.Load())
	offline("task", "list", "--api", api.URL, "--token-file", file)
	require.Equal(t, "Bearer from-file", *seen.Load())

	r = offline("task", "list", "--api", api.URL, "--token-file", file+"2")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "does not hold one token and nothing else")
	r = offline("task", "list", "--api", api.URL, "--token-file", file+"3")
	require.Contains(t, r.err, "--token-file: open")
	r = offline("task", "list", "--api", api.URL, "--api-ca", file)
	require.Contains(t, r.err, "holds no certificate in PEM form")
}
