package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrongFlagsOfTheWebhookAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		w    webhookFlags
		says string
	}{
		{webhookFlags{receiver: receiver{url: "https://example.com/sesame"}}, "--webhook-secret-file is missing"},
		{webhookFlags{receiver: receiver{secretFile: "f"}}, "--webhook is missing"},
		{webhookFlags{receiver: receiver{url: "http://example.com/sesame", secretFile: "f"}}, "plain HTTP"},
		{webhookFlags{receiver: receiver{url: "https://u:sesame@example.com/", secretFile: "f"}}, "user or password"},
		{webhookFlags{kinds: []string{"parkd"}}, `did you mean "parked"`},
		{webhookFlags{from: "middle"}, "use end or start"},
	} {
		if c.w.from == "" {
			c.w.from = fromEnd
		}
		err := c.w.validate()
		require.ErrorContains(t, err, c.says)
		require.NotContains(t, err.Error(), "sesame")
	}
	w := webhookFlags{receiver: receiver{url: "https://example.com/", secretFile: filepath.Join(t.TempDir(), "none")}, from: fromEnd}
	require.NoError(t, w.validate())
	_, err := w.webhook()
	require.ErrorContains(t, err, "--webhook-secret-file: open ")
	hook, err := (&webhookFlags{}).webhook()
	require.NoError(t, err)
	require.Nil(t, hook)
}

// The command sends one message that is signed, and says what the receiver answers.
func TestTheWebhookCanBeTried(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	var id, signature string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, signature = r.Header.Get("webhook-id"), r.Header.Get("webhook-signature")
		w.WriteHeader(status)
		_, _ = w.Write([]byte("thanks"))
	}))
	defer server.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600))
	try := func() (string, error) {
		var out bytes.Buffer
		c := webhookCommand()
		c.SetOut(&out)
		c.SetErr(&out)
		c.SetArgs([]string{"test", "--webhook", server.URL + "/sesame", "--webhook-secret-file", secret})
		err := c.Execute()
		return out.String(), err
	}
	out, err := try()
	require.NoError(t, err)
	require.Contains(t, out, "status 200: thanks")
	require.Contains(t, out, id)
	require.NotContains(t, out, "sesame")
	require.Regexp(t, `^v1,\S{44}$`, signature)
	status = http.StatusForbidden
	out, err = try()
	require.ErrorContains(t, err, "must answer 2xx")
	require.Contains(t, out, "status 403: thanks")
}
