package api_test

import (
	"encoding/json"
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// The node that answers asks the others what only they know.
func TestNodesSayWhatOnlyTheyKnow(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b", "c")
	ask := func() (list []api.NodeDocument) {
		r := n.members[0].do("GET", "/v1/nodes", "")
		require.Equal(t, 200, r.status, r.body)
		var d struct{ Nodes []api.NodeDocument }
		require.NoError(t, json.Unmarshal([]byte(r.body), &d))
		require.Len(t, d.Nodes, 3)
		return d.Nodes
	}
	list := ask()
	for i, name := range []string{"a", "b", "c"} {
		require.Equal(t, name, list[i].Node)
		require.Equal(t, int64(name[0]), *list[i].StateBytes)
		require.Equal(t, name != "a", list[i].ClockAhead != nil, "against the clock of the node that answers")
	}
	n.members[1].stop()
	list = ask()
	require.Nil(t, list[1].StateBytes, "it does not answer")
	require.NotNil(t, list[2].FreeBytes)
}
