package bench

import (
	"bytes"
	"strconv"
	"sync/atomic"
)

const (
	blockSize = 1 << 14
	// maxTasks bounds a run: 4,096 blocks. An empty block costs a pointer.
	maxTasks = blockSize << 12
)

// table holds a value for each task of a run, by its number. It grows without moving values, so any goroutine may use a place in it.
// Goroutines that share a place use atomic operations.
type table[T any] struct {
	blocks [maxTasks / blockSize]atomic.Pointer[[blockSize]T]
}

// at returns the place of a task, and creates it if necessary.
func (t *table[T]) at(task int) *T {
	slot := &t.blocks[task/blockSize]
	block := slot.Load()
	if block == nil {
		slot.CompareAndSwap(nil, new([blockSize]T))
		block = slot.Load()
	}
	return &block[task%blockSize]
}

// get returns the value of a task, or zero if its place was never used.
func (t *table[T]) get(task int) (v T) {
	if task < 0 || task >= maxTasks {
		return v
	}
	if block := t.blocks[task/blockSize].Load(); block != nil {
		return block[task%blockSize]
	}
	return v
}

// bytes returns the size of the table in bytes.
func (t *table[T]) bytes(size int) (n int64) {
	for i := range t.blocks {
		if t.blocks[i].Load() != nil {
			n += int64(size) * blockSize
		}
	}
	return n
}

// names converts between task IDs and numbers. The prefix distinguishes the tasks of this run from others.
type names struct{ prefix []byte }

func newNames(run string) names { return names{[]byte("order-" + run + "-")} }

// append appends the ID of a task.
func (n names) append(dst []byte, task int) []byte {
	return strconv.AppendInt(append(dst, n.prefix...), int64(task), 10)
}

// number returns the number of a task. It returns false for the ID of a task of another run.
func (n names) number(id []byte) (int, bool) {
	if !bytes.HasPrefix(id, n.prefix) {
		return 0, false
	}
	digits := id[len(n.prefix):]
	if len(digits) == 0 || len(digits) > 9 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	v := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = 10*v + int(c-'0')
	}
	return v, v < maxTasks
}
