package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/webhook"
	"github.com/stretchr/testify/require"
)

// The values are those by which the libraries of Standard Webhooks test themselves.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func keys(t *testing.T, text string) *webhook.Keys {
	t.Helper()
	k, err := webhook.ParseKeys(text)
	require.NoError(t, err)
	return k
}

func TestTheSignatureIsThatOfTheConvention(t *testing.T) {
	t.Parallel()
	got := keys(t, secret+"\n").Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", got)
}

func TestWrongSecretsAreRefusedAndNotQuoted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "\n\n", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GK", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa!!",
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)), strings.Repeat(secret+"\n", 6), secret + "\nsecond",
	} {
		_, err := webhook.ParseKeys(text)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "MfKQ", text)
		require.NotContains(t, err.Error(), "second", text)
	}
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", keys(t, secret), keys(t, secret), keys(t, secret), keys(t, secret)), "MfKQ")
}

func TestURLsThatMustNotBeUsedAreRefused(t *testing.T) {
	t.Parallel()
	for _, u := range []string{
		"", "example.com/x", "https://", "ftp://example.com/", "https://a:sesame@example.com/", "https://sesame@example.com/", "https://example.com/#sesame",
		"http://example.com/sesame", "http://10.0.0.1/sesame", "http://localhost.example.com/sesame", "https://exa mple/sesame", "https://:1/",
	} {
		_, err := webhook.CheckURL(u, false)
		require.Error(t, err, u)
		require.NotContains(t, err.Error(), "sesame")
	}
	for _, u := range []string{"https://example.com", "https://example.com:1/a?b=c", "http://localhost:1/", "http://127.0.0.1/", "http://[::1]:1/"} {
		_, err := webhook.CheckURL(u, false)
		require.NoError(t, err, u)
	}
	_, err := webhook.CheckURL("http://example.com/", true)
	require.NoError(t, err)
}

// receiver verifies as a receiver would, by what the convention says and none of our code. It returns nil for a message of the secret.
func verify(r *http.Request, body []byte, coded string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(coded, "whsec_"))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, got := range strings.Fields(r.Header.Get("webhook-signature")) {
		if hmac.Equal([]byte(got), []byte(want)) {
			return nil
		}
	}
	return fmt.Errorf("no signature matches")
}

// A message that is signed with two secrets is accepted by who knows one of them, and by nobody else.
func TestAMessageCarriesASignatureOfEachSecret(t *testing.T) {
	t.Parallel()
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32)))
	third := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("p", 32)))
	got := make(chan error, 3)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		for _, s := range []string{secret, other, third} {
			got <- verify(r, body, s)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	s, err := webhook.New(webhook.Config{URL: server.URL + "/hook", Keys: keys(t, secret+"\n"+other).Always()})
	require.NoError(t, err)
	defer s.Close()
	a, err := s.Send(t.Context(), webhook.Message{ID: "1/2", Body: []byte(`{}`)})
	require.NoError(t, err)
	require.True(t, a.Delivered())
	require.NoError(t, <-got)
	require.NoError(t, <-got)
	require.Error(t, <-got)
}

// A redirect is not followed, so neither message nor signature reach another place. An answer that quotes a secret is not passed on.
func TestARedirectIsARefusal(t *testing.T) {
	t.Parallel()
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		w.Header().Set("Location", "/elsewhere")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTemporaryRedirect)
		_, _ = w.Write([]byte("bad\nsignature for " + secret + strings.Repeat("x", 10_000)))
	}))
	defer server.Close()
	s, err := webhook.New(webhook.Config{URL: server.URL + "/sesame?token=sesame", Keys: keys(t, secret).Always()})
	require.NoError(t, err)
	defer s.Close()
	a, err := s.Send(t.Context(), webhook.Message{ID: "1"})
	require.NoError(t, err)
	require.Equal(t, 1, calls)
	require.True(t, a.Refused())
	require.Equal(t, 7*time.Second, a.RetryAfter)
	require.Contains(t, a.String(), "status 307, a redirect, which is not followed")
	require.Contains(t, a.String(), "bad signature for whsec_...")
	require.Less(t, len(a.String()), 700)
	server.Close()
	_, err = s.Send(t.Context(), webhook.Message{ID: "1"})
	require.ErrorContains(t, err, s.Host())
	require.NotContains(t, err.Error(), "sesame")
}

// The library quotes what it cannot use of an answer; what a receiver writes there is shortened, and its secrets are left out.
func TestAnErrorShowsNoMoreOfAnAnswerThanAnAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://[wrong "+secret+strings.Repeat("x", 5000))
		w.WriteHeader(http.StatusFound)
	}))
	defer server.Close()
	s, err := webhook.New(webhook.Config{URL: server.URL, Keys: keys(t, secret).Always()})
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Send(t.Context(), webhook.Message{ID: "1"})
	require.ErrorContains(t, err, "Location")
	require.NotContains(t, err.Error(), "MfKQ")
	require.Less(t, len(err.Error()), 700)
}

func TestPausesGrowToTheirBounds(t *testing.T) {
	t.Parallel()
	none, busy, bad := webhook.Answer{}, webhook.Answer{Status: 503, RetryAfter: time.Minute}, webhook.Answer{Status: 410}
	for _, c := range []struct {
		failures int
		answer   webhook.Answer
		want     time.Duration
	}{
		{1, none, time.Second},
		{2, none, 2 * time.Second},
		{9, none, 256 * time.Second},
		{10, none, 5 * time.Minute},
		{1000, none, 5 * time.Minute},
		{1, busy, time.Minute},
		{1, webhook.Answer{Status: 429, RetryAfter: 100 * time.Hour}, time.Hour},
		{1, bad, 30 * time.Second},
		{8, bad, time.Hour},
		{1, webhook.Answer{Status: 408}, time.Second},
	} {
		require.Equal(t, c.want, webhook.Pause(c.failures, c.answer, 0), "%+v", c)
		require.GreaterOrEqual(t, webhook.Pause(c.failures, c.answer, 1), c.want*3/4, "%+v", c)
	}
}
