package api

import (
	"fmt"
	"os"
	"sync"
)

const (
	// queueMemory is how much stays in memory: some ten thousand answers.
	queueMemory = 1 << 20
	// queueChunk is how much next returns at most from the file.
	queueChunk = 64 << 10
)

// diskQueue is a queue of bytes between one writer, which never waits, and one reader. Bytes that do not fit into its
// memory wait in a temporary file.
//
// Invariant: the bytes in the file are newer than those in memory; so memory is read first, and additions go to the
// file until it is empty.
type diskQueue struct {
	mu sync.Mutex
	// mu guards the fields below.
	added  *sync.Cond
	memory []byte
	file   *os.File
	// read and written are positions in the file.
	read, written int64
	ended         bool
	closed        bool
	err           error
}

func newDiskQueue() *diskQueue {
	q := &diskQueue{}
	q.added = sync.NewCond(&q.mu)
	return q
}

// add appends b. After close it does nothing.
func (q *diskQueue) add(b []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.added.Signal()
	switch {
	case q.closed:
		return nil
	case q.err != nil:
		return q.err
	case q.read == q.written && len(q.memory)+len(b) <= queueMemory:
		q.memory = append(q.memory, b...)
		return nil
	}
	q.err = q.spill(b)
	return q.err
}

func (q *diskQueue) spill(b []byte) error {
	if q.file == nil {
		f, err := os.CreateTemp("", "sagalog-bulk-*")
		if err != nil {
			return fmt.Errorf("open a temporary file: %w", err)
		}
		q.file = f
		os.Remove(f.Name()) // it lasts until it is closed, and not beyond kill -9
	}
	if _, err := q.file.WriteAt(b, q.written); err != nil {
		return fmt.Errorf("write a temporary file: %w", err)
	}
	q.written += int64(len(b))
	return nil
}

// end says that nothing more will be added.
func (q *diskQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.added.Signal()
}

// next waits for bytes and returns them; more is false at the end.
func (q *diskQueue) next() (b []byte, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.memory) == 0 && q.read == q.written && !q.ended {
		q.added.Wait()
	}
	if len(q.memory) > 0 {
		b, q.memory = q.memory, nil
		return b, true
	}
	if q.read == q.written {
		return nil, false
	}
	b = make([]byte, min(queueChunk, q.written-q.read))
	n, err := q.file.ReadAt(b, q.read)
	if n < len(b) {
		q.err = fmt.Errorf("read a temporary file: %w", err)
		return nil, false
	}
	if q.read += int64(n); q.read == q.written {
		q.read, q.written = 0, 0
	}
	return b, true
}

// close frees the memory and the file.
func (q *diskQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.memory, q.read, q.written = true, nil, 0, 0
	if q.file != nil {
		q.file.Close()
		q.file = nil
	}
}
