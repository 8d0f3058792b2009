//go:build synctests

package node_test

import (
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// A damaged state is deleted only if it can be rebuilt from the log.
func TestFaultADamagedStateOverATrimmedLogIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _ := trimmed(t)
		kafkatest.DeleteRecords(t, f.broker, f.topics.Events(), 0, f.end(0)-2)
		files := f.disks[0].FS()
		mark, err := files.Create(filepath.Join(memory, "state", "DAMAGED"), "unspecified")
		require.NoError(t, err)
		require.NoError(t, mark.Close())
		before, err := files.List(filepath.Join(memory, "state"))
		require.NoError(t, err)
		for range 2 {
			_, err := f.open(memory, together, on(f.disks[0]))
			require.ErrorIs(t, err, node.ErrGap, "refused, at every start")
			t.Log(err)
			after, err := files.List(filepath.Join(memory, "state"))
			require.NoError(t, err)
			require.Subset(t, after, before)
		}
	})
}
