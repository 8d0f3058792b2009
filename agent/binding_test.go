package agent_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/httpagent"
)

func TestABindingSaysWhetherItsLimitIsFixed(t *testing.T) {
	t.Parallel()
	for line, fixed := range map[string]bool{"": false, ", limit: adaptive": false, ", limit: fixed": true} {
		list, err := httpagent.Load(fstest.MapFS{"a.yaml": {Data: []byte("agent: a\nhttp: {base: http://x" + line + "}\ndo: {method: GET, path: /}\n")}},
			func(string) (string, bool) { return "", false })
		require.NoError(t, err)
		r := agent.NewRegistry()
		list[0].Register(r)
		require.NoError(t, r.Err())
		require.Equal(t, fixed, agent.LimitIsFixed(r, "a"))
	}
}
