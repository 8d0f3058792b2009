package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNoStore is returned by OpenIntact where there is no store, or one that was made and not begun.
var ErrNoStore = errors.New("there is no state store")

// OpenIntact opens a store that exists for somebody who judges it, and changes nothing in it: nothing is committed,
// compacted, or marked as damaged. It reads all that is stored first, so that damage is met that no other read comes
// upon: the checksums of each table's blocks, and then every row, also those of the lists. Its error, ErrDamaged, names the file. Nothing may be committed to it.
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
	s := &Store{
		dir: dir, log: o.Logger, lock: lock, metrics: newMetrics(), readOnly: true,
		done: make(chan struct{}), partitions: map[int32]*Partition{}, damage: newDamage(),
	}
	s.writers.New = func() any { return newWriter() }
	p := pebbleOptions(o, s.metrics)
	p.Lock, p.ReadOnly, p.FormatMajorVersion = lock, true, described.FormatMajorVersion
	p.EventListener.DataCorruption = func(info pebble.DataCorruptionInfo) { s.damage.met(dir, info) }
	if s.db, err = pebble.Open(dir, p); err != nil {
		return nil, errors.Join(openError(dir, err), lock.Close())
	}
	if err := errors.Join(s.intact(o.FS, p.MakeReaderOptions()), s.begun(o.Namespace)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// met is corrupted of a store in which nothing may change.
func (d *damage) met(dir string, info pebble.DataCorruptionInfo) {
	d.once.Do(func() {
		d.err = damaged(dir, fmt.Errorf("%s: %w", info.Path, info.Details))
		close(d.found)
	})
}

// begun is prepare without its writes. A partition whose reset was cut short has no meta row.
func (s *Store) begun(namespace string) error {
	format, err := s.get([]byte{spaceStore, storeFormat})
	if err != nil {
		return err
	}
	if format == nil {
		return fmt.Errorf("%w: %s was made and not begun", ErrNoStore, s.dir)
	}
	return errors.Join(s.identify(namespace), s.readPartitions())
}

// intact needs a database that is open to be read only: else a compaction may take a table away.
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
		_, err = it.ValueAndErr() // a value may stand elsewhere than its key
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return s.because(err)
	}
	return nil
}

// because prefers what Pebble told of the damage, which names the file.
func (s *Store) because(err error) error {
	if told := s.Damage(); told != nil {
		return told
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
