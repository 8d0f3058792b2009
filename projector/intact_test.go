package projector_test

import (
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

// One flipped bit in the blocks of a table is found and reported with the file's name. The check changes no file, whether it
// finds damage or not.
func TestOpenIntactFindsAFlippedBit(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s := &script{t: t, store: openSmall(t, disk), keys: map[string]*events.Keys{}, allowed: map[int64][]string{}}
	s.allow(0, "next 0\n")
	s.run()
	require.NoError(t, s.store.Close())
	whole := contents(t, disk)
	require.NoError(t, openIntact(t, disk))
	require.Equal(t, whole, contents(t, disk))

	names := filesOf(t, disk, "sst")
	require.NotEmpty(t, names)
	for _, name := range names {
		for _, part := range []int{4, 2} { // after a quarter and after half of its length; the footer is at the end
			fs := vfs.NewMem()
			copyAll(t, disk, fs)
			raw := contents(t, fs)[name]
			raw[len(raw)/part] ^= 1
			f, err := fs.Create(directory+"/"+name, vfs.WriteCategoryUnspecified)
			require.NoError(t, err)
			_, err = f.Write(raw)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			before := contents(t, fs)
			err = openIntact(t, fs)
			require.ErrorIs(t, err, projector.ErrDamaged, name)
			require.ErrorContains(t, err, name)
			require.Equal(t, before, contents(t, fs))
		}
	}
}

func TestOpenIntactMakesNoStore(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	require.ErrorIs(t, openIntact(t, fs), projector.ErrNoStore)
	_, err := fs.Stat(directory)
	require.Error(t, err, "the store was created")
}

func openIntact(t *testing.T, fs vfs.FS) error {
	t.Helper()
	s, err := projector.OpenIntact(directory, smallTables(fs))
	if err == nil {
		require.NotEmpty(t, s.Partitions())
		require.NoError(t, s.Close())
	}
	return err
}

func contents(t *testing.T, fs vfs.FS) map[string][]byte {
	t.Helper()
	names, err := fs.List(directory)
	require.NoError(t, err)
	all := map[string][]byte{}
	for _, name := range names {
		f, err := fs.Open(directory + "/" + name)
		require.NoError(t, err)
		all[name], err = io.ReadAll(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	return all
}
