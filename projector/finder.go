package projector

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// finder looks up rows of a partition with one iterator that it reuses: creating an iterator and finding the files that may
// hold a row costs several times as much as checking their filters. The iterator shows the store as it was at its creation, so
// each commit of the partition closes it. A time limit does too, because Pebble retains what an iterator can see.
type finder struct {
	mu sync.Mutex
	// mu guards the fields below.
	// it is nil while nothing is looked up; closed means that the store is closed.
	it     *pebble.Iterator
	closed bool
}

// finderLasts is long enough for the lookups of a batch of submissions, and too short to delay the removal of files.
const finderLasts = 100 * time.Millisecond

// head returns a copy of the row of a task's head, or nil if the task does not exist.
func (f *finder) head(p *Partition, id string) (value []byte, err error) {
	err = f.find(p.store.db, taskKey(nil, p.number, id), func(it *pebble.Iterator) error {
		found, err := it.ValueAndErr()
		if err != nil {
			return readError(err)
		}
		value = append(make([]byte, 0, len(found)), found...)
		return nil
	})
	return value, err
}

// task returns copies of all rows of a task.
func (f *finder) task(p *Partition, id string) (task events.StoredTask, err error) {
	key := taskKey(nil, p.number, id)
	err = f.find(p.store.db, key, func(it *pebble.Iterator) error {
		task, err = readTask(it, key, id)
		return err
	})
	return task, err
}

// find calls use with the iterator at the key; use may move it. It does not call use if there is no such row.
func (f *finder) find(db *pebble.DB, key []byte, use func(it *pebble.Iterator) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	if f.it == nil {
		it, err := db.NewIter(&lookupOptions)
		if err != nil {
			return readError(err)
		}
		f.it = it
		time.AfterFunc(finderLasts, func() { f.expire(it) })
	}
	if !f.it.SeekPrefixGE(key) {
		if f.it.Error() != nil {
			return f.close()
		}
		return nil
	}
	err := use(f.it)
	if err != nil {
		_ = f.close() // the error of the row says more
	}
	return err
}

func (f *finder) expire(it *pebble.Iterator) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.it == it {
		_ = f.close() // get has returned its errors
	}
}

// end makes get return ErrClosed from now on: an iterator that outlives the store would make its Close fail.
func (f *finder) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	_ = f.close() // get has returned its errors
}

// forget closes the iterator because rows have changed.
func (f *finder) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.close() // get has returned its errors
}

// close is called with mu held.
func (f *finder) close() error {
	if f.it == nil {
		return nil
	}
	it := f.it
	f.it = nil
	return closeIter(it)
}
