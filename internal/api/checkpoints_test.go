package api_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// maker makes a checkpoint of any name, or returns err.
type maker struct{ err error }

func (m *maker) MakeCheckpoint(_ context.Context, to string) (api.CheckpointDocument, error) {
	return api.CheckpointDocument{Path: "/data/checkpoints/" + to, Partitions: []api.CheckpointPartition{{Partition: 1, Offset: 7, Hash: "ab"}}}, m.err
}

func TestACheckpointIsMadeOnDemand(t *testing.T) {
	t.Parallel()
	m := &maker{}
	w := setup(t, func(c *api.Config) { c.Checkpoints = m })
	made := w.do("POST", "/v1/checkpoints", `{"to":"x"}`)
	require.Equal(t, 200, made.status, made.body)
	require.Equal(t, "/data/checkpoints/x", made.json(t)["path"])
	require.Equal(t, "node-a", made.json(t)["node"])
	require.Equal(t, 200, w.do("POST", "/v1/checkpoints", "").status, "the body may be missing")
	for _, bad := range []string{`{"to":7}`, `{"too":"x"}`} {
		require.Equal(t, 422, w.do("POST", "/v1/checkpoints", bad).status, bad)
	}
	for _, c := range []struct {
		err    error
		status int
		says   string
	}{
		{fmt.Errorf("%w: /data/checkpoints", api.ErrCheckpointPlace), 422, "directly in its directory of checkpoints: /data/checkpoints"},
		{api.ErrCheckpointBusy, 409, "being made at the moment"},
		{fmt.Errorf("%w: x", api.ErrCheckpointExists), 409, "Give another one"},
		{fmt.Errorf("%w: /data/checkpoints holds 9 of 9", api.ErrCheckpointMany), 409, "/data/checkpoints holds 9 of 9. Delete old ones"},
		{fmt.Errorf("make a checkpoint: %w", context.Canceled), 500, ""},
	} {
		m.err = c.err
		r := w.do("POST", "/v1/checkpoints", `{"to":"x"}`)
		require.Equal(t, c.status, r.status, r.body)
		require.Contains(t, r.body, c.says)
	}
}
