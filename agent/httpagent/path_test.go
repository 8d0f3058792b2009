package httpagent

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// For every value, the path keeps the prefix and the number of segments of the template, and the service decodes the original
// value, even if a proxy on the way decodes or cleans the path.
func FuzzAValueNeverLeavesItsSegment(f *testing.F) {
	for _, s := range []string{"", ".", "..", "/", "a/b", "../..", "a/../../b", `..\..`, "%2e%2e", "%2F", "?x=1", "#f", "ü", "\x00", "a b", "…", ".a", "...", "//", "./"} {
		f.Add(s)
	}
	base, err := url.Parse("http://host:1/base")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, v string) {
		u, err := resolvePath(base, "/api/packages/"+escapeValue(v)+"/parts?q="+escapeValue(v))
		if err != nil {
			require.Contains(t, []string{"", ".", ".."}, v, "only these are refused: %v", err)
			return
		}
		sent, err := url.Parse(u.String())
		require.NoError(t, err)
		raw := sent.EscapedPath()
		require.True(t, strings.HasPrefix(raw, "/base/api/packages/"), raw)
		require.Equal(t, 5, strings.Count(raw, "/"), raw)
		require.Equal(t, raw, path.Clean(raw), "nothing to clean")
		require.Equal(t, "http://host:1", sent.Scheme+"://"+sent.Host)
		require.Empty(t, sent.Fragment)
		segment, err := url.PathUnescape(strings.Split(raw, "/")[4])
		require.NoError(t, err)
		require.Equal(t, v, segment)
		require.Equal(t, v, sent.Query().Get("q"))
	})
}

func TestDotsBetweenEncodedSlashesAreEncoded(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"..%2f..": "%2E%2E%252f%2E%2E", "a%5C..%5cb": "a%255C%2E%2E%255cb", "..%252F..": "%2E%2E%25252F%2E%2E", "a/../b": "a%2F%2E%2E%2Fb",
		"a.b%2f..c": "a.b%252f..c", "50%.": "50%25.",
	} {
		require.Equal(t, want, escapeValue(in))
	}
}

func TestTheTemplateOfAPathIsEncoded(t *testing.T) {
	t.Parallel()
	base := &url.URL{Scheme: "http", Host: "h"}
	for in, want := range map[string]string{
		"/a b/ü": "/a%20b/%C3%BC", "/a%20b": "/a%20b", "/a#b": "/a%23b", "/x?y=z&q=ü": "/x?y=z&q=%C3%BC", "/": "/",
		"/a:b@c,d;e=(f)": "/a:b@c,d;e=(f)",
	} {
		u, err := resolvePath(base, in)
		require.NoError(t, err, in)
		require.Equal(t, want, u.RequestURI())
	}
	for _, in := range []string{"/a/../b", "/./b", "/%2e%2E/b", "/a%zz", "/a%2", "/.%2e"} {
		_, err := resolvePath(base, in)
		require.Error(t, err, in)
	}
}
