package api_test

import (
	"encoding/json"
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

func (w *world) acts() (d api.ActsDocument) {
	w.t.Helper()
	r := w.do("GET", "/v1/acts", "")
	require.Equal(w.t, 200, r.status, r.body)
	require.NoError(w.t, json.Unmarshal([]byte(r.body), &d))
	return d
}

// Each node knows what it decided, and all know the definitions.
func TestActsAreThoseOfAllNodes(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b", "c")
	subjects := func(d api.ActsDocument) (list []string) {
		for _, a := range d.Acts {
			list = append(list, a.Verb+" "+a.Subject+" by "+a.By)
		}
		return list
	}
	d := n.members[0].acts()
	require.Equal(t, []string{"pause bank by bob", "retry a by ada", "retry b by ada", "retry c by ada"}, subjects(d))
	require.False(t, d.Partial)
	n.members[1].stop()
	d = n.members[0].acts()
	require.True(t, d.Partial, "a node does not answer, and the list says so")
	require.Equal(t, []string{"pause bank by bob", "retry a by ada", "retry c by ada"}, subjects(d))
}
