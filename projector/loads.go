package projector

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// loads reads tasks for the owner of a partition with one iterator until the partition's next commit. An owner looks up the ID of each
// submission, and creating an iterator costs several times as much as finding that no file has the row: 4 % of the CPU of a task.
type loads struct {
	mu sync.Mutex
	// it is nil while nothing is looked up. It shows the store as it was at its creation.
	it *pebble.Iterator
}

// loadsLast is long enough for the lookups of a batch, and too short to keep Pebble from deleting files.
const loadsLast = 100 * time.Millisecond

// task returns copies of all rows of a task.
func (l *loads) task(p *Partition, id string) (task events.StoredTask, err error) {
	p.store.open.RLock()
	defer p.store.open.RUnlock()
	if p.store.closed {
		return task, ErrClosed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.it == nil {
		it, err := p.store.db.NewIter(&lookupOptions)
		if err != nil {
			return task, readError(err)
		}
		l.it = it
		time.AfterFunc(loadsLast, func() { l.expire(it) })
	}
	key := taskKey(nil, p.number, id)
	if !l.it.SeekPrefixGE(key) {
		if l.it.Error() != nil {
			return task, l.close()
		}
		return task, nil
	}
	if task, err = readTask(l.it, key, id); err != nil {
		_ = l.close() // the error of the row says more
	}
	return task, err
}

// expire closes the iterator if it is still in use.
func (l *loads) expire(it *pebble.Iterator) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.it == it {
		_ = l.close() // task has returned its errors
	}
}

// end makes later lookups see everything that is stored by now.
func (l *loads) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.close() // task has returned its errors
}

// close is called with mu held.
func (l *loads) close() error {
	if l.it == nil {
		return nil
	}
	it := l.it
	l.it = nil
	return closeIter(it)
}
