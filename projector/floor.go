package projector

import (
	"bytes"
	"sync"
)

// floors remembers, for each index that is worked off from its front, a key below which no row is left.
//
// Without it, each look at the front of a queue would step over the tombstones of all that was taken since Pebble's
// last compaction: a burst of n tasks would cost n squared.
//
// Invariant: no committed row of a prefix lies below its floor. A scan and a commit may race:
//
//  1. a scan opens its iterator; 2. a commit adds row N at the front; 3. the scan, which cannot see N, finds K > N
//     and would raise the floor to K.
//
// So a commit changes the version before and after it applies its batch, and a scan raises the floor only if the
// version is still the one from before its iterator. Between the two, the second lowering repairs what a scan raised.
type floors struct {
	mu      sync.Mutex
	version uint64
	// rows maps a prefix to its floor; one without an entry has none.
	rows map[string][]byte
}

// from returns where a scan of prefix may begin, and the version to give to raise.
func (f *floors) from(prefix []byte) (floor []byte, version uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at := f.rows[string(prefix)]; at != nil {
		return at, f.version
	}
	return prefix, f.version
}

// raise says that a scan which asked at that version found no row of prefix below key.
func (f *floors) raise(prefix, key []byte, version uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.version != version {
		return
	}
	if at := f.rows[string(prefix)]; bytes.Equal(at, key) {
		return
	}
	if f.rows == nil {
		f.rows = map[string][]byte{}
	}
	f.rows[string(prefix)] = bytes.Clone(key)
}

// lower makes room for rows that are added.
func (f *floors) lower(added *fronts) {
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

func (f *floors) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	clear(f.rows)
}

// fronts are the first of the rows that a commit adds, by the prefix under which they are worked off.
type fronts struct{ list []front }

type front struct{ prefix, key []byte }

// add takes one more row. There are a few prefixes: one for each time, and one for each agent.
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
