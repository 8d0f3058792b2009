package export

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

// meeting calls met while it is read.
type meeting struct {
	*recorded
	met func()
}

func (l *meeting) Read(ctx context.Context, s verify.Span, yield func(events.Record) error) error {
	l.met()
	return l.recorded.Read(ctx, s, yield)
}

// While an export writes to a directory, no other one of the same table does. Another table is another directory.
func TestTwoExportsDoNotWriteToOneDirectory(t *testing.T) {
	t.Parallel()
	l, dir := runs(t, 1)[0], t.TempDir()
	cfg := configOf(l, dir, Parquet)
	met := 0
	cfg.Log = &meeting{readable(l.partitions, -1), func() {
		if met++; met > 1 {
			return
		}
		_, err := Facts(t.Context(), configOf(l, dir, Parquet))
		var busy *BusyError
		require.ErrorAs(t, err, &busy)
		require.ErrorContains(t, err, "another export is writing to "+filepath.Join(dir, "facts")+": wait until it ends")
		_, err = Attempts(t.Context(), configOf(l, dir, Parquet))
		require.NoError(t, err)
	}}
	one := readable([][]events.Record{l.partitions[0]}, -1) // one partition, so one reader at a time
	cfg.Log.(*meeting).recorded = one
	_, err := Facts(t.Context(), cfg)
	require.NoError(t, err)
	require.Positive(t, met)
	res, err := Facts(t.Context(), cfg)
	require.NoError(t, err)
	require.True(t, res.Already, "the lock is free again")

	other := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(other, "facts"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(other, "facts", "mine"), nil, 0o600))
	_, err = Facts(t.Context(), configOf(l, other, Parquet))
	require.ErrorIs(t, err, ErrOther)
	require.NoFileExists(t, filepath.Join(other, "facts", lockFile))
}
