package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/access"
	"github.com/stretchr/testify/require"
)

func TestABulkEndsWhenItsTokenIsRevoked(t *testing.T) {
	t.Parallel()
	g := guard(t)
	w := setup(t, g.on)
	body, out := io.Pipe()
	defer out.Close()
	r, err := http.NewRequest("POST", w.url+"/v1/tasks", body)
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("Authorization", "Bearer "+g.tokens[access.Submitter])
	go func() { _, _ = fmt.Fprintf(out, "%s\n", strings.Replace(good, "{", `{"id":"one",`, 1)) }()
	resp, err := w.client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), `"one"`)
	require.NoError(t, access.Revoke(g.file, "the-submitter"))
	ended := make(chan string)
	go func() {
		rest := ""
		for lines.Scan() { // until the server ends it
			rest += lines.Text()
		}
		ended <- rest
	}()
	select {
	case rest := <-ended:
		require.NotContains(t, rest, "202")
	case <-time.After(soon):
		require.Fail(t, "the bulk goes on")
	}
}

// A caller without a token who never sends the body that it announced holds no connection.
func TestARefusedBodyIsNotAwaited(t *testing.T) {
	t.Parallel()
	g := guard(t)
	w := setup(t, g.on)
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "POST /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(soon)))
	all, err := io.ReadAll(c)
	require.NoError(t, err, "the server closes the connection")
	require.Contains(t, string(all), "401 Unauthorized")
}

// Two lines of a header are one list in HTTP; only the first is read, and passed on.
func TestANodePassesOnARequestWithAHeaderTwice(t *testing.T) {
	t.Parallel()
	g := guard(t)
	n := g.nodes(t)
	r, err := http.NewRequest("GET", n.members[0].url+"/v1/tasks/none", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.tokens[access.Viewer])
	r.Header["Accept"] = []string{"application/json", "text/plain"}
	resp, err := n.members[0].client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

// Jobs and schedules ask tasks too, with keys that can be predicted. Whoever may only submit must not answer for them in advance.
func TestAKeyOfAJobNeedsAnOperator(t *testing.T) {
	t.Parallel()
	g := guard(t)
	w := setup(t, g.on)
	require.Equal(t, 202, w.do("PUT", "/v1/tasks/x", good, g.bearer(access.Submitter)...).status)
	for _, key := range []string{"job/k", "daily/2026-11-26T00:00:00Z"} {
		signal := func(role access.Role) reply {
			return w.do("POST", "/v1/tasks/x/signal", `{"signal":"yes"}`, append(g.bearer(role), "Idempotency-Key", key)...)
		}
		require.Contains(t, signal(access.Submitter).body, "the form of the keys of jobs and schedules")
		require.NotContains(t, signal(access.Operator).body, "the form of the keys")
	}
}
