package projector

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// finder looks up rows of a partition, one after another, with one iterator: to make one and to find the files that
// may hold a row costs several times as much as to ask their filters. The iterator shows what was stored when it was made,
// so each commit of the partition ends it. So does some time, because Pebble keeps what it shows in memory and on the disk.
type finder struct {
	mu sync.Mutex
	// mu guards the fields below.
	// it is nil while nothing is looked up; closed says that the store is.
	it     *pebble.Iterator
	closed bool
}

// finderLasts is longer than the lookups of a batch of submissions take, and short enough to hold nothing back.
const finderLasts = 100 * time.Millisecond

// get returns a copy of a row's value, nil if there is none.
func (f *finder) get(db *pebble.DB, key []byte) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	if f.it == nil {
		it, err := db.NewIter(&lookupOptions)
		if err != nil {
			return nil, readError(err)
		}
		f.it = it
		time.AfterFunc(finderLasts, func() { f.expire(it) })
	}
	if !f.it.SeekPrefixGE(key) {
		if f.it.Error() != nil {
			return nil, f.close()
		}
		return nil, nil
	}
	value, err := f.it.ValueAndErr()
	if err != nil {
		_ = f.close() // the error of the row says more
		return nil, readError(err)
	}
	return append(make([]byte, 0, len(value)), value...), nil
}

func (f *finder) expire(it *pebble.Iterator) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.it == it {
		_ = f.close() // whoever read by it was told
	}
}

// end has get answer ErrClosed from now on: an iterator that outlives the store would fail its Close.
func (f *finder) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	_ = f.close() // whoever read by it was told
}

// forget ends the iterator: rows have changed.
func (f *finder) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.close() // whoever read by it was told
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
