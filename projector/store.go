package projector

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
)

// Store is the state store of a process. Its methods are safe for concurrent use; Commit says who may commit. Once Close
// has been called, only Close may be called.
type Store struct {
	dir      string
	fs       FS
	db       *pebble.DB
	lock     *pebble.Lock
	metrics  *metrics
	registry prometheus.Registerer
	// registered are the collectors that Close unregisters.
	registered []prometheus.Collector
	writers    sync.Pool
	// readOnly means that there is nothing to flush.
	readOnly bool
	// flushed is when a flush was last requested, in nanoseconds since 1970.
	flushed atomic.Int64
	// done is closed by Close.
	done   chan struct{}
	damage *damage
	sums   tableSums
	ending *ending

	// mu guards partitions.
	mu         sync.Mutex
	partitions map[int32]*Partition

	// open guards closed, so that neither a scrape nor a lookup reads a closed database.
	open   sync.RWMutex
	closed bool
}

// Open opens the state store in dir, or creates an empty one, and finishes a Reset that was interrupted. The caller
// closes the store.
func Open(dir string, o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	lock, err := lockDirectory(dir, o.FS)
	if err != nil {
		return nil, err
	}
	s, p := newStore(dir, o, lock)
	if err := errors.Join(refuseDamaged(o.FS, dir), checkManifest(o.FS, dir)); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	begun := false
	err = withoutPanic(dir, func() error {
		var err error
		if s.db, err = pebble.Open(dir, p); err != nil {
			return openError(dir, err)
		}
		begun = true
		return s.prepare(o.Namespace)
	})
	switch {
	case errors.Is(err, errPanicked): // Pebble panicked halfway and may hold locks that its Close would wait for
		return nil, errors.Join(err, lock.Close())
	case err != nil && begun:
		return nil, errors.Join(err, s.db.Close(), lock.Close())
	case err != nil:
		return nil, errors.Join(err, lock.Close())
	}
	s.ending.opened.Store(true)
	if err := s.register(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newStore returns a store without its database, and the options for opening the database.
func newStore(dir string, o Options, lock *pebble.Lock) (*Store, *pebble.Options) {
	s := &Store{
		dir: dir, fs: o.FS, lock: lock, registry: o.Registerer, metrics: newMetrics(),
		done: make(chan struct{}), partitions: map[int32]*Partition{}, damage: newDamage(),
	}
	s.writers.New = func() any { return newWriter() }
	s.flushed.Store(time.Now().UnixNano())
	s.ending = &ending{dir: dir, fs: o.FS, log: o.Logger, code: o.ExitCode}
	p := pebbleOptions(o, s.metrics, s.ending)
	p.Lock = lock
	p.EventListener.DataCorruption = func(info pebble.DataCorruptionInfo) { s.corrupted(o, info) }
	return s, p
}

// Pebble would create its directory readable by everybody, and task inputs are private; so it is created here first.
const dirMode = 0o700

func lockDirectory(dir string, fs vfs.FS) (*pebble.Lock, error) {
	if err := fs.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("create the state store: %w", err)
	}
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		var path *os.PathError // the lock file could not be created
		if errors.As(err, &path) {
			return nil, fmt.Errorf("lock the state store: %w", err)
		}
		return nil, fmt.Errorf("%w: %s is open in another process (%w); stop that one, or use another data directory", ErrLocked, dir, err)
	}
	return lock, nil
}

func openError(dir string, err error) error {
	if unknownToPebble(err) {
		return fmt.Errorf("%w: %s (%w); run the newer version, or give another data directory", ErrNewer, dir, err)
	}
	// A missing file is damage too: a power cut while the store was being created leaves it like that.
	if pebble.IsCorruptionError(err) || errors.Is(err, os.ErrNotExist) {
		return damaged(dir, err)
	}
	if diskFails(err) {
		return fmt.Errorf("the state store cannot be opened: %s: %w; %s", dir, err, diskRemedy)
	}
	return fmt.Errorf("open the state store: %w (if this persists, delete %s: it is rebuilt from the log)", err, dir)
}

// prepare checks which namespace the database belongs to, finishes interrupted resets, and reads each partition's meta row.
func (s *Store) prepare(namespace string) error {
	if err := s.identify(namespace); err != nil {
		return err
	}
	if err := s.finishResets(); err != nil {
		return err
	}
	return s.readPartitions()
}

func (s *Store) identify(namespace string) error {
	want := strconv.Itoa(formatVersion)
	format, err := s.get([]byte{spaceStore, storeFormat})
	if err != nil {
		return err
	}
	if format == nil {
		empty, err := s.isEmpty()
		if err != nil {
			return err
		}
		if empty {
			return s.initialize(want, namespace)
		}
	}
	if err := checkFormat(s.dir, string(format)); err != nil {
		return err
	}
	owner, err := s.get([]byte{spaceStore, storeNamespace})
	if err != nil {
		return err
	}
	if string(owner) != namespace {
		return fmt.Errorf("%w: %s is of namespace %q, but the log is of namespace %q; use the data directory that belongs to this log, or delete that one",
			ErrNamespace, s.dir, owner, namespace)
	}
	return nil
}

func (s *Store) isEmpty() (empty bool, err error) {
	it, err := s.iterate(nil, nil)
	if err != nil {
		return false, err
	}
	empty = !it.First()
	return empty, closeIter(it)
}

func (s *Store) initialize(format, namespace string) error {
	b := s.db.NewBatch()
	defer b.Close()
	err := errors.Join(
		b.Set([]byte{spaceStore, storeFormat}, []byte(format), nil),
		b.Set([]byte{spaceStore, storeNamespace}, []byte(namespace), nil),
		b.Commit(pebble.NoSync),
	)
	if err == nil {
		err = s.db.Flush()
	}
	if err != nil {
		return fmt.Errorf("initialise the state store: %w", err)
	}
	return nil
}

// readPartitions jumps from meta row to meta row.
func (s *Store) readPartitions() error {
	it, err := s.iterate([]byte{spacePartition}, []byte{spacePartition + 1})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; {
		number, err := partitionOf(it.Key()[1:])
		if err != nil {
			return closeFailed(err, it)
		}
		p := s.Partition(number)
		_, v, err := p.read(it)
		if err != nil {
			return closeFailed(err, it)
		}
		p.view.Store(v)
		ok = it.SeekGE(appendRow(nil, number+1, 0))
	}
	return closeIter(it)
}

func (s *Store) register() error {
	if s.registry == nil {
		return nil
	}
	for _, c := range append(s.metrics.all(), newGauges(s)) {
		if err := s.registry.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
		s.registered = append(s.registered, c)
	}
	return nil
}

// Close ends all waits and closes the database. Afterwards everything committed is on disk.
func (s *Store) Close() error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.done)
	for _, c := range s.registered {
		s.registry.Unregister(c)
	}
	for _, p := range s.known() {
		p.loads.end()
	}
	var err error
	if !s.readOnly {
		err = s.db.Flush()
	}
	if err := errors.Join(err, s.db.Close(), s.lock.Close()); err != nil {
		return fmt.Errorf("close the state store: %w", err)
	}
	return nil
}

// Sync returns once everything committed survives a crash of the process and a power cut. It bounds what must be folded again
// from the log after either, and must come before the log is trimmed.
func (s *Store) Sync() error {
	if err := s.db.Flush(); err != nil {
		return fmt.Errorf("sync the state store: %w", err)
	}
	return nil
}

// Partition returns the view of a partition, even one that has no rows yet.
func (s *Store) Partition(partition int32) *Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.partitions[partition]
	if p == nil {
		p = newPartition(s, partition)
		s.partitions[partition] = p
	}
	return p
}

// known returns, in order, the partitions that have rows or have been asked for.
func (s *Store) known() []*Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.partitions), func(a, b *Partition) int { return int(a.number) - int(b.number) })
}

// reader is the database or a snapshot of it.
type reader interface {
	NewIter(o *pebble.IterOptions) (*pebble.Iterator, error)
}

// get returns a copy of a row's value, or nil if the row does not exist.
func (s *Store) get(key []byte) ([]byte, error) {
	var value []byte
	_, err := lookup(s.db, key, func(v []byte) error {
		value = append(make([]byte, 0, len(v)), v...)
		return nil
	})
	return value, err
}

// lookupOptions uses the filters of the last level too, which holds nearly all rows. Pebble's Get skips those filters because
// it assumes that the key exists; a new task's does not, and each lookup would read a block.
var lookupOptions = pebble.IterOptions{UseL6Filters: true}

// lookup calls use with a row's value; use must not keep it.
func lookup(r reader, key []byte, use func(value []byte) error) (found bool, err error) {
	return lookupFrom(r, key, func(it *pebble.Iterator) error {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		return use(value)
	})
}

// lookupFrom calls use with an iterator at a row; use may move it.
func lookupFrom(r reader, key []byte, use func(it *pebble.Iterator) error) (found bool, err error) {
	it, err := r.NewIter(&lookupOptions)
	if err != nil {
		return false, readError(err)
	}
	if !it.SeekPrefixGE(key) {
		return false, closeIter(it)
	}
	if err := use(it); err != nil {
		return true, closeFailed(err, it)
	}
	return true, closeIter(it)
}

// iterate returns an iterator over the keys in [from, to), positioned before the first.
func (s *Store) iterate(from, to []byte) (*pebble.Iterator, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return nil, readError(err)
	}
	return it, nil
}

func closeIter(it *pebble.Iterator) error {
	if err := it.Close(); err != nil {
		return readError(err)
	}
	return nil
}
