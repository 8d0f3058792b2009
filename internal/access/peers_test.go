package access_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// Two nodes exchange their key while requests pass between them, each when its file happens to change. None of them is refused.
func TestNodesExchangeTheirKeyWithoutARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type node struct {
			file string
			gate *access.Gate
		}
		var nodes []*node
		var log bytes.Buffer
		for range 2 {
			n := &node{file: filepath.Join(t.TempDir(), "node.key")}
			require.NoError(t, os.WriteFile(n.file, []byte(secret+"\n"), 0o600))
			p, err := access.OpenPeers("test", n.file, slog.New(slog.NewTextHandler(&log, nil)))
			require.NoError(t, err)
			n.gate = &access.Gate{Peers: p}
			nodes = append(nodes, n)
		}
		agree := func() {
			t.Helper()
			for i, from := range nodes {
				_, err := check(nodes[1-i].gate, passed(t, from.gate, ""))
				require.NoError(t, err)
			}
		}
		agree()
		for _, text := range []string{secret + "\n" + another + "\n", another + "\n" + secret + "\n", another + "\n"} {
			for _, n := range nodes {
				require.NoError(t, os.WriteFile(n.file, []byte(text), 0o600))
				agree() // also before the second that may pass until it signs by the new file
				time.Sleep(time.Second)
				agree()
			}
		}
		_, err := check(nodes[0].gate, passed(t, peerGate(t, "test", secret), ""))
		require.ErrorIs(t, err, access.ErrUnsigned, "the old key is gone")
		require.NoError(t, os.WriteFile(nodes[0].file, []byte("short"), 0o600))
		time.Sleep(time.Second)
		agree()
		require.Contains(t, log.String(), "cannot be used")
		require.NotContains(t, log.String(), another)
		_, err = access.OpenPeers("test", nodes[0].file, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, nodes[0].file, "at the start it is refused")
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
