package httpagent_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARefusalKeepsTheServicesOwnWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("very ", 10_000) + "long"
	for name, c := range map[string]struct {
		contentType, body, words string
		detail                   string
	}{
		"problem":      {"application/problem+json", `{"title":"Conflict","detail":"it is locked"}`, "it is locked", `{"title":"Conflict","detail":"it is locked"}`},
		"message":      {"application/json", `{"message":"no stock","code":7}`, "no stock", `{"message":"no stock","code":7}`},
		"error object": {"application/json", `{"error":{"code":7}}`, "", `{"error":{"code":7}}`},
		"text":         {"text/plain", "no stock\n", "no stock", `"no stock\n"`},
		"Latin 1":      {"text/plain; charset=iso-8859-1", "gr\xf6\xdfer", "größer", `"größer"`},
		"a page":       {"text/html", "<h1>Sorry</h1>", "", `"<h1>Sorry</h1>"`},
		"empty":        {"", "", "", "null"},
		"long":         {"text/plain", long, long[:200] + "...", `"` + long[:2048] + `..."`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := bind(t, oneTry, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{c.contentType}
				w.WriteHeader(http.StatusConflict)
				_, _ = io.WriteString(w, c.body)
			}))
			r := h.Do("package", anInput)
			want := "answered 409 Conflict"
			if c.words != "" {
				want += ": " + c.words
			}
			require.True(t, strings.HasSuffix(r.Error.Message, want), r.Error.Message)
			require.Equal(t, c.detail, string(r.Error.Detail))
		})
	}
}

func TestAMessageHasNeitherQueryNorPassword(t *testing.T) {
	t.Parallel()
	base := strings.Replace(serve(t, status(http.StatusConflict)), "http://", "http://user:hunter22@", 1)
	r := bind(t, strings.Replace(oneTry, `/${ input.id }", body`, `/${ input.id }?key=${ input.key }", body`, 1), base).
		Do("package", map[string]any{"id": "1", "key": "k-private"})
	require.Regexp(t, `^PUT http://127\.0\.0\.1:\d+/api/packages/1 answered 409 Conflict$`, r.Error.Message)
}

func TestAMessageSaysHowTheCallBroke(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]func(net.Conn){
		"the connection was reset": func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) },
		"the connection was closed before the answer was complete": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
		},
		"the answer is not HTTP": func(c net.Conn) { _, _ = io.WriteString(c, "private words\r\n\r\n") },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			h := bind(t, oneTry, serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				c, _, _ := w.(http.Hijacker).Hijack()
				answer(c)
				_ = c.Close()
			}))
			r := h.Do("package", anInput)
			require.Regexp(t, `^PUT http://127\.0\.0\.1:\d+/api/packages/p%201: `+want+`$`, r.Error.Message)
		})
	}
}
