package projector

import (
	"bytes"
	"sync"
)

// lowerBounds remembers a key below which no row is left, for each index that is consumed from its front.
//
// Without it, each look at the front of a queue would step over the tombstones of all rows removed since Pebble's last
// compaction: a burst of n tasks would cost n squared.
//
// Invariant: no committed row of a prefix lies below its bound. A scan and a commit may race:
//
//  1. a scan opens its iterator; 2. a commit adds row N at the front; 3. the scan, which cannot see N, finds K > N
//     and would raise the bound to K.
//
// So a commit changes the version before and after it applies its batch, and a scan raises the bound only if the version
// has not changed since before its iterator. The lowering after the batch repairs a bound that a scan raised in between.
type lowerBounds struct {
	mu      sync.Mutex
	version uint64
	// rows maps a prefix to its bound; one without an entry has none.
	rows map[string][]byte
}

// from returns where a scan of prefix may begin, and the version to pass to raise.
func (f *lowerBounds) from(prefix []byte) (bound []byte, version uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at := f.rows[string(prefix)]; at != nil {
		return at, f.version
	}
	return prefix, f.version
}

// maxLowerBounds bounds the prefixes that are remembered, since each key of a queue has one. Forgotten ones cost a longer scan.
const maxLowerBounds = 20_000

// raise records that a scan begun at that version found no row of prefix below key.
func (f *lowerBounds) raise(prefix, key []byte, version uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.version != version {
		return
	}
	if at := f.rows[string(prefix)]; bytes.Equal(at, key) {
		return
	}
	if f.rows == nil || len(f.rows) >= maxLowerBounds {
		f.rows = map[string][]byte{}
	}
	f.rows[string(prefix)] = bytes.Clone(key)
}

// lower moves the lowerBounds below rows that are being added.
func (f *lowerBounds) lower(added *fronts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	if len(f.rows) == 0 {
		return
	}
	for i := range added.list {
		a := &added.list[i]
		if at := f.rows[string(a.prefix)]; at != nil && bytes.Compare(a.key, at) < 0 {
			f.rows[string(a.prefix)] = bytes.Clone(a.key)
		}
	}
}

func (f *lowerBounds) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	clear(f.rows)
}

// fronts are the first rows that a commit adds, by the prefix under which they are consumed.
type fronts struct{ list []front }

type front struct{ prefix, key []byte }

// add notes another row. There are few prefixes: one for each index of instants and one for each agent.
func (f *fronts) add(prefix, key []byte) {
	for i := range f.list {
		if a := &f.list[i]; bytes.Equal(a.prefix, prefix) {
			if bytes.Compare(key, a.key) < 0 {
				a.key = append(a.key[:0], key...)
			}
			return
		}
	}
	f.list = append(f.list, front{bytes.Clone(prefix), bytes.Clone(key)})
}
