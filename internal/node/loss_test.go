package node_test

import (
	"strconv"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

func TestWhatAnInputHasLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		passed     events.Passed
		start, end int64
		want       string
	}{
		"nothing":                         {passed: events.Passed{Next: 7, Hash: "x"}, start: 6, end: 9},
		"nothing of a new topic":          {},
		"nothing that a hash could prove": {passed: events.Passed{Next: 7}, start: 7, end: 9},
		"its end":                         {passed: events.Passed{Next: 7, Hash: "x"}, start: 0, end: 3, want: "ends at offset 3, and the log has judged everything below offset 7"},
		"everything":                      {passed: events.Passed{Next: 7, Hash: "x"}, start: 0, end: 0, want: "ends at offset 0"},
		"records that wait":               {passed: events.Passed{Next: 7, Hash: "x"}, start: 12, end: 15, want: "the offsets 7 to 11 were deleted before they were judged"},
		"the last judged record":          {passed: events.Passed{Next: 7, Hash: "x"}, start: 7, end: 9, want: "no record is missing"},
	} {
		got := node.LossOf(kafka.Topics{Namespace: "sagalog"}, events.Reports, 2, c.passed, c.start, c.end)
		if c.want == "" {
			require.Nil(t, got, name)
			continue
		}
		require.Contains(t, got.What, "sagalog.reports partition 2", name)
		require.Contains(t, got.What, c.want, name)
		require.Equal(t, c.start >= 7, got.Acceptable, name)
		if got.Acceptable {
			require.Contains(t, got.Remedy(), "sagalog namespace accept-loss --input reports --partition 2 --from 7 --to "+strconv.FormatInt(c.start, 10), name)
		} else {
			require.Contains(t, got.Remedy(), "accept-loss cannot give this up", name)
		}
	}
}
