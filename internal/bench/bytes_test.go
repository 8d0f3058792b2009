package bench

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARunSaysWhereTheBytesOfATaskAre(t *testing.T) {
	t.Parallel()
	r, err := Tasks(t.Context(), &TasksConfig{Config: small(t), Outstanding: 20, Tasks: 100, Bytes: true})
	require.NoError(t, err)
	require.Len(t, r.Topics, 4)
	var facts TopicBytes
	for _, x := range r.Topics {
		require.Positive(t, x.Records, x.Topic)
		require.InDelta(t, x.Bytes, x.Keys+x.Values+x.Headers, 0.3, x.Topic)
		require.Greater(t, x.Files, x.Bytes, "the broker in this process does not compress")
		var headers float64
		for _, h := range x.ByHeader {
			headers += h.Names + h.Values
		}
		require.InDelta(t, x.Headers, headers, 0.1*float64(1+2*len(x.ByHeader)), x.Topic)
		if x.Topic == "events" {
			facts = x
		}
	}
	require.InDelta(t, r.LogBytes, facts.Bytes, 0.05*r.LogBytes, "what the watcher counted")
	var table bytes.Buffer
	require.NoError(t, r.Print(&table))
	require.Contains(t, table.String(), "headers of reports: ce_time")
}
