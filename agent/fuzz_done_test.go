package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzCommitMetadata reads any metadata of a commit: what it tells are runs in order, apart and not below the mark, which
// survive being written; and no offset outside them is taken for finished.
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
		done := decodeDone(next, text)
		at := next
		for _, s := range done {
			require.GreaterOrEqual(t, s.first, at)
			require.Greater(t, s.end, s.first)
			at = s.end
		}
		again := decodeDone(next, encodeDone(next, done))
		require.Equal(t, union(done, nil), union(again, nil))
		m := newMarks()
		m.adopt(1, Assigned{Mark: Mark{Next: next, Metadata: text, Assignment: 1}})
		if offset := next; offset < 1<<62 {
			at := place{partition: 1, assignment: 1, offset: offset}
			require.Equal(t, !covers(done, offset), m.begin(at, time.Unix(1, 0)))
		}
	})
}
