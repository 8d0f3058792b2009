package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/webhook"
	"github.com/stretchr/testify/require"
)

var silent = slog.New(slog.DiscardHandler)

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
	_, err := w.webhook(silent)
	require.ErrorContains(t, err, "--webhook-secret-file: open ")
	hook, err := (&webhookFlags{}).webhook(silent)
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

// The secret is replaced without a restart. A file that others can read is refused at the start, and changes nothing later.
func TestTheSecretOfTheWebhookIsReadAgain(t *testing.T) {
	t.Parallel()
	signatures := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signatures <- r.Header.Get("webhook-signature")
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "secret")
	write := func(mode os.FileMode, text string) {
		require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
		require.NoError(t, os.Chmod(file+".new", mode))
		require.NoError(t, os.Rename(file+".new", file))
	}
	const first, second = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", "whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB\n"
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	w := webhookFlags{receiver: receiver{url: server.URL, secretFile: file}}
	write(0o644, first)
	_, err := w.webhook(log)
	require.ErrorContains(t, err, "--webhook-secret-file: "+file+" has the mode 0644, so others can read or change it: run `chmod 600 "+file+"`")
	write(0o600, first)
	hook, err := w.webhook(log)
	require.NoError(t, err)
	defer hook.Sender.Close()
	// awaits sends until a message has this many signatures, and the log says something.
	awaits := func(n int, says string) {
		require.Eventually(t, func() bool {
			_, err := hook.Sender.Send(t.Context(), webhook.Message{ID: "1", Body: []byte("{}")})
			require.NoError(t, err)
			return len(strings.Fields(<-signatures)) == n && strings.Contains(said.String(), says)
		}, time.Minute, 50*time.Millisecond)
	}
	awaits(1, "")
	write(0o600, second+first)
	awaits(2, "was read again")
	write(0o644, second)
	awaits(2, "has the mode 0644")
	require.NotContains(t, said.String(), "whsec_")
}
