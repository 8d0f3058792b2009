package offsets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent/transport"
)

// FuzzCommitMetadata decodes any text as metadata: the result is sorted runs without overlap and not below the position,
// encoding them again changes nothing, and no offset outside them counts as finished.
func FuzzCommitMetadata(f *testing.F) {
	f.Add(int64(10), "sagalog-done-1 3+2,1+40")
	f.Add(int64(0), "sagalog-done-1 0+1")
	f.Add(int64(9223372036854775806), "sagalog-done-1 0+1,0+1")
	f.Add(int64(5), "sagalog-done-1 -1+2")
	f.Add(int64(5), "member-1 {}")
	f.Fuzz(func(t *testing.T, next int64, text string) {
		if next < 0 {
			return
		}
		runs := decodeMetadata(next, text)
		at := next
		for _, s := range runs {
			require.GreaterOrEqual(t, s.first, at)
			require.Greater(t, s.end, s.first)
			at = s.end
		}
		again := decodeMetadata(next, encodeMetadata(next, runs))
		require.Equal(t, union(runs, nil), union(again, nil))
		m := NewTracker()
		m.Assign(1, transport.Assigned{Position: transport.Position{Next: next, Metadata: text, Assignment: 1}})
		if offset := next; offset < 1<<62 {
			at := Place{Partition: 1, Assignment: 1, Offset: offset}
			require.Equal(t, !covers(runs, offset), m.Begin(at, time.Unix(1, 0)))
		}
	})
}
