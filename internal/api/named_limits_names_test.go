package api_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// No name that a limit cannot have reaches the log or the answer as it is.
func TestNamesThatNoLimitCanHave(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, name := range []string{"../tasks", "a\nb", "Bank", "bänk", strings.Repeat("x", 200), "_other", "a\"b", "a\x00b", " "} {
		path := "/v1/limits/" + url.PathEscape(name)
		for _, call := range []string{"GET " + path, "DELETE " + path, "POST " + path + "/pause", "POST " + path + "/resume"} {
			method, path, _ := strings.Cut(call, " ")
			r := w.do(method, path, "")
			require.Equal(t, 404, r.status, "%s: %s", call, r.body)
			require.Less(t, len(r.body), 1000, call)
		}
	}
	require.Empty(t, w.engine.Inputs("reports"))
}
