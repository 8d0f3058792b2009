package ui_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/ui"
	"github.com/stretchr/testify/require"
)

func get(t *testing.T, h http.Handler, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	a := httptest.NewRecorder()
	h.ServeHTTP(a, httptest.NewRequest(method, path, nil))
	return a
}

// Below any prefix, each file of the page is found from each of its addresses.
func TestThePageIsServedBelowAPrefix(t *testing.T) {
	t.Parallel()
	for prefix, base := range map[string]string{"": "/", "/": "/", "/sagalog": "/sagalog/", "a/b/": "/a/b/"} {
		h, err := ui.Handler(ui.Options{Prefix: prefix})
		require.NoError(t, err)
		for _, path := range []string{"", "tasks", "tasks/o-17", "index.html", "tasks/..%2F..%2Fetc%2Fpasswd"} {
			a := get(t, h, "GET", base+path)
			require.Equal(t, 200, a.Code, path)
			require.Contains(t, a.Body.String(), `<base href="`+base+`" />`)
			require.Equal(t, "no-cache", a.Header().Get("Cache-Control"))
			policy := a.Header().Get("Content-Security-Policy")
			require.Contains(t, policy, "default-src 'none'")
			require.NotContains(t, policy, "unsafe")
		}
		index := get(t, h, "GET", base).Body.String()
		require.NotRegexp(t, `<script[^>]*>[^<]|<style| on[a-z]+=`, index, "nothing is inline")
		files := regexp.MustCompile(`(?:src|href)="\./([^"]+)"`).FindAllStringSubmatch(index, -1)
		require.Len(t, files, 3)
		for _, f := range files {
			a := get(t, h, "GET", base+f[1])
			require.Equal(t, 200, a.Code, f[1])
			require.NotEmpty(t, a.Body.Bytes())
			require.Equal(t, strings.HasPrefix(f[1], "assets/"), strings.Contains(a.Header().Get("Cache-Control"), "immutable"), f[1])
		}
		require.Equal(t, 404, get(t, h, "GET", base+"assets/of-another-version.js").Code)
		require.Equal(t, 405, get(t, h, "POST", base).Code)
		require.Equal(t, 200, get(t, h, "HEAD", base).Code)
	}
}
