package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNoStore is returned by OpenIntact if the store does not exist or was never initialised.
var ErrNoStore = errors.New("there is no state store")

// OpenIntact opens an existing store for inspection and changes nothing in it: it does not commit, compact, or mark damage.
// It first reads everything, so that damage is found anywhere: the checksums of each table's blocks, then every row,
// including those of the lists. Its error ErrDamaged names the file. The caller must not commit to the store.
func OpenIntact(dir string, o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if _, err := o.FS.Stat(dir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoStore, err)
	}
	if err := errors.Join(refuseDamaged(o.FS, dir), checkManifest(o.FS, dir)); err != nil {
		return nil, err
	}
	described, err := pebble.Peek(dir, o.FS)
	if err != nil {
		return nil, openError(dir, err)
	}
	if !described.Exists {
		return nil, fmt.Errorf("%w: %s is empty", ErrNoStore, dir)
	}
	lock, err := lockDirectory(dir, o.FS)
	if err != nil {
		return nil, err
	}
	s, p := newStore(dir, o, lock)
	s.readOnly, p.ReadOnly, p.FormatMajorVersion = true, true, described.FormatMajorVersion
	if s.db, err = pebble.Open(dir, p); err != nil {
		return nil, errors.Join(openError(dir, err), lock.Close())
	}
	if err := errors.Join(s.intact(o.FS, p.MakeReaderOptions()), s.begun(o.Namespace)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// begun is prepare without the writes. A partition whose reset was interrupted has no meta row.
func (s *Store) begun(namespace string) error {
	format, err := s.get([]byte{spaceStore, storeFormat})
	if err != nil {
		return err
	}
	if format == nil {
		return fmt.Errorf("%w: %s was created but never initialised", ErrNoStore, s.dir)
	}
	return errors.Join(s.identify(namespace), s.readPartitions())
}

// intact needs a read-only database: otherwise a compaction could remove a table.
func (s *Store) intact(fs vfs.FS, tables sstable.ReaderOptions) error {
	levels, err := s.db.SSTables()
	if err != nil {
		return readError(err)
	}
	for _, level := range levels {
		for i := range level {
			path := fs.PathJoin(s.dir, level[i].FileNum.String()+".sst")
			if err := intactTable(fs, path, tables); err != nil {
				return damaged(s.dir, fmt.Errorf("%s: %w", path, err))
			}
		}
	}
	if err := s.db.CheckLevels(nil); err != nil {
		return s.because(err)
	}
	it, err := s.db.NewIter(&pebble.IterOptions{})
	if err != nil {
		return s.because(err)
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		_, err = it.ValueAndErr() // a value may be stored apart from its key
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return s.because(err)
	}
	return nil
}

// because prefers the damage that Pebble reported, which names the file.
func (s *Store) because(err error) error {
	if reported := s.Damage(); reported != nil {
		return reported
	}
	return readError(err)
}

func intactTable(fs vfs.FS, path string, tables sstable.ReaderOptions) error {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, tables)
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}
