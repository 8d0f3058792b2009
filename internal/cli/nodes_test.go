package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// The answer may take the time that silent nodes are waited for.
func TestNodesListAsksOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/nodes" {
			asked.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(api.HeaderAPI, "v1")
		_, _ = io.WriteString(w, `{"nodes":[{"node":"a","partitions":[1]},{"node":"b","partitions":[],"stopped":[{"partition":3,"reason":"log","detail":"it lost\n records"}]}]}`)
	}))
	defer engine.Close()
	r := run("nodes", "list", "--api", engine.URL)
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.err, "partition 3 has stopped at node b (log): it lost records")
	require.Regexp(t, `(?m)^a +alive +1 `, r.out)
	require.EqualValues(t, 1, asked.Load())
}
