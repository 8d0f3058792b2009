package access_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/internal/access"
	"github.com/stretchr/testify/require"
)

const (
	secret  = "0123456789abcdef0123456789abcdef"
	another = "fedcba9876543210fedcba9876543210"
)

func peerGate(t *testing.T, namespace, secrets string) *access.Gate {
	t.Helper()
	p, err := access.NewPeers(namespace, secrets)
	require.NoError(t, err)
	return &access.Gate{Peers: p}
}

var anna = access.Caller{Name: "anna müller\n", Role: access.Operator}

// passed is a request as the other node receives it.
func passed(t *testing.T, g *access.Gate, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(access.With(context.Background(), anna), "POST", "http://b:1/v1/tasks/a%2Fb/cancel?wait=5s", strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Sagalog-Forwarded", "ns/b")
	r.Header.Set("Idempotency-Key", "k")
	g.Sign(r, []byte(body))
	in := httptest.NewRequest(r.Method, r.URL.RequestURI(), strings.NewReader(body))
	in.Header = r.Header.Clone()
	return in
}

func check(g *access.Gate, r *http.Request) (access.Caller, error) {
	return g.Passed(r, func() ([]byte, error) { return io.ReadAll(r.Body) })
}

func TestANodeBelievesASignedRequest(t *testing.T) {
	t.Parallel()
	a, b := peerGate(t, "test", secret), peerGate(t, "test", another+"\n"+secret)
	r := passed(t, a, `{"reason":"x"}`)
	c, err := check(b, r)
	require.NoError(t, err)
	require.Equal(t, anna, c)
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"reason":"x"}`, string(body), "the body can still be read")
}

func TestANodeBelievesNoChangedRequest(t *testing.T) {
	t.Parallel()
	g := peerGate(t, "test", secret)
	for name, change := range map[string]func(*http.Request){
		"method":            func(r *http.Request) { r.Method = "PUT" },
		"path":              func(r *http.Request) { r.RequestURI = "/v1/tasks/a/b/cancel?wait=5s" },
		"query":             func(r *http.Request) { r.RequestURI += "0" },
		"body":              func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"reason":"y"}`)) },
		"role":              func(r *http.Request) { r.Header.Set("Sagalog-Caller", "admin anna") },
		"receiver":          func(r *http.Request) { r.Header.Set("Sagalog-Forwarded", "ns/c") },
		"partitions":        func(r *http.Request) { r.Header.Set("Sagalog-Partitions", "1") },
		"key":               func(r *http.Request) { r.Header.Set("Idempotency-Key", "l") },
		"second caller":     func(r *http.Request) { r.Header.Add("Sagalog-Caller", "admin anna") },
		"no signature":      func(r *http.Request) { r.Header.Del("Sagalog-Signature") },
		"cut signature":     func(r *http.Request) { r.Header.Set("Sagalog-Signature", r.Header.Get("Sagalog-Signature")[:90]) },
		"another time":      func(r *http.Request) { r.Header.Set("Sagalog-Signature", "1"+r.Header.Get("Sagalog-Signature")) },
		"an empty MAC":      func(r *http.Request) { r.Header.Set("Sagalog-Signature", "1 00 ") },
		"a body of no sort": func(r *http.Request) { r.Header.Set("Sagalog-Signature", "1 xx 00") },
	} {
		r := passed(t, g, `{"reason":"x"}`)
		change(r)
		_, err := check(g, r)
		require.ErrorIs(t, err, access.ErrUnsigned, name)
	}
	for name, other := range map[string]*access.Gate{
		"another key": peerGate(t, "test", another), "another namespace": peerGate(t, "other", secret), "no key": peerGate(t, "test", ""),
	} {
		_, err := check(other, passed(t, g, ""))
		require.ErrorIs(t, err, access.ErrUnsigned, name)
	}
	late := errors.New("late")
	_, err := g.Passed(passed(t, g, ""), func() ([]byte, error) { return nil, late })
	require.ErrorIs(t, err, late)
}

func TestASignatureIsValidForTwoMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := peerGate(t, "test", secret)
		time.Sleep(time.Hour)
		r := passed(t, g, "")
		time.Sleep(2 * time.Minute)
		_, err := check(g, r)
		require.NoError(t, err)
		time.Sleep(time.Second)
		_, err = check(g, r)
		require.ErrorIs(t, err, access.ErrUnsigned)
	})
}

func TestAWeakKeyOfNodesIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"short", secret + "\nshort", secret + "\n" + another + "\n" + secret + "0"} {
		_, err := access.NewPeers("test", text)
		require.ErrorContains(t, err, "the key of the nodes")
		require.NotContains(t, err.Error(), secret)
		require.NotContains(t, err.Error(), "short")
	}
}
