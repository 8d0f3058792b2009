package api

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

const (
	// queueMemory is how much stays in memory: about ten thousand answers.
	queueMemory = 1 << 20
	// queueChunk is the most that next returns from the file, and how much is written to it at once.
	queueChunk = 64 << 10
	// queueDisk bounds one file: a client may send over a million lines before it reads an answer.
	queueDisk = 128 << 20
	// queuesDisk bounds all files of the process: four such clients at once. The tmpfs of compose.yaml has room for it.
	queuesDisk = 4 * queueDisk
)

// diskQueue is a queue of bytes between one writer and one reader. Bytes that do not fit into its memory wait in a temporary
// file. While there is no room on disk, the writer waits until the reader has read the whole file, since a file is truncated only
// when it is read to its end.
//
// Invariant: the bytes in the file are newer than those in memory; so memory is read first, and additions go to the
// file until it is empty.
type diskQueue struct {
	// disk is the room for the files of all queues of the process, room that for this queue's file.
	disk, room *semaphore.Weighted
	// ctx ends the wait for room. close ends it.
	ctx    context.Context
	cancel context.CancelFunc

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

func newDiskQueue(ctx context.Context, disk *semaphore.Weighted) *diskQueue {
	q := &diskQueue{disk: disk, room: semaphore.NewWeighted(queueDisk)}
	q.ctx, q.cancel = context.WithCancel(ctx)
	q.added = sync.NewCond(&q.mu)
	return q
}

// add appends b, and waits while there is no room for it. After close it does nothing.
func (q *diskQueue) add(b []byte) error {
	if q.remember(b) {
		return nil
	}
	for part := range slices.Chunk(b, queueChunk) {
		if err := q.store(part); err != nil {
			return err
		}
	}
	return nil
}

// remember keeps b in memory, if it may.
func (q *diskQueue) remember(b []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.err != nil || q.read < q.written || len(q.memory)+len(b) > queueMemory {
		return false
	}
	q.memory = append(q.memory, b...)
	q.added.Signal()
	return true
}

// store appends b to the file. It takes its own room first, so that a queue that waits for its reader holds none of the shared
// room that others need.
func (q *diskQueue) store(b []byte) error {
	n := int64(len(b))
	err := q.room.Acquire(q.ctx, n)
	if err == nil {
		if err = q.disk.Acquire(q.ctx, n); err != nil {
			q.room.Release(n)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed && err == nil:
		q.release(n)
		return nil
	case q.closed:
		return nil
	case err != nil:
		return fmt.Errorf("wait for room for answers: %w", err)
	case q.err == nil:
		q.err = q.spill(b)
	}
	if q.err != nil {
		q.release(n)
	}
	q.added.Signal()
	return q.err
}

// release gives up room for n bytes.
func (q *diskQueue) release(n int64) {
	q.room.Release(n)
	q.disk.Release(n)
}

func (q *diskQueue) spill(b []byte) error {
	if q.file == nil {
		f, err := os.CreateTemp("", "sagalog-bulk-*")
		if err != nil {
			return fmt.Errorf("open a temporary file: %w", err)
		}
		q.file = f
		os.Remove(f.Name()) // it lasts until it is closed, and does not survive kill -9
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
		if err := q.file.Truncate(0); err != nil { // all room is free again, not only the queue's own
			q.err = fmt.Errorf("cut a temporary file: %w", err)
		}
		q.release(q.written)
		q.read, q.written = 0, 0
	}
	return b, true
}

// close frees the memory and the file.
func (q *diskQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cancel()
	q.release(q.written)
	q.closed, q.memory, q.read, q.written = true, nil, 0, 0
	if q.file != nil {
		q.file.Close()
		q.file = nil
	}
}
