package export

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
)

// buckets is a hash table in a file without a name: it lasts until it is closed, and not beyond kill -9. A bucket has slots for a key and a value, all of one
// size, and the first free slot ends it. The first bits of a key say which bucket it is in. When one is full, each becomes two, so that finding a key takes one
// read, and memory holds one bucket however many keys there are. A library's store would need memory for its caches, and some do not return the error of a full disk.
type buckets struct {
	file *os.File
	// bits is how many of a key count: there are 1<<bits buckets.
	bits int
	// value is the size of a value, in bytes.
	value  int
	bucket [bucketBytes]byte
}

const (
	bucketBytes = 4 << 10
	// firstBits makes a file of 64 KiB.
	firstBits = 4
	keyBytes  = 16
)

// newBuckets makes an empty table in a directory. name is part of what the file is called until it has no name.
func newBuckets(dir, name string, value int) (*buckets, error) {
	file, err := nameless(dir, name)
	if err != nil {
		return nil, err
	}
	return &buckets{file: file, bits: firstBits, value: value}, file.Truncate(bucketBytes << firstBits)
}

// nameless makes a file that ends when it is closed, or with the process.
func nameless(dir, name string) (*os.File, error) {
	file, err := os.CreateTemp(dir, name)
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}

func (b *buckets) close() error { return b.file.Close() }

func (b *buckets) slot(i int) []byte {
	size := keyBytes + b.value
	return b.bucket[i*size : (i+1)*size]
}

func (b *buckets) slots() int { return bucketBytes / (keyBytes + b.value) }

// keyIn returns the key of a slot; zero, which no task has, if it is free.
func keyIn(slot []byte) taskKey {
	return taskKey{binary.LittleEndian.Uint64(slot), binary.LittleEndian.Uint64(slot[8:])}
}

// find reads the bucket of a key, and returns its place in the file and the slot that has the key, or else the first free one, or else slots.
func (b *buckets) find(key taskKey) (at int64, slot int, found bool, err error) {
	at = int64(key[0]>>(64-b.bits)) * bucketBytes
	if _, err := b.file.ReadAt(b.bucket[:], at); err != nil {
		return 0, 0, false, fmt.Errorf("read what was put aside of a task: %w", err)
	}
	for ; slot < b.slots(); slot++ {
		switch keyIn(b.slot(slot)) {
		case key:
			return at, slot, true, nil
		case taskKey{}:
			return at, slot, false, nil
		}
	}
	return at, slot, false, nil
}

// get reads the value of a key into to; false if it has none.
func (b *buckets) get(key taskKey, to []byte) (bool, error) {
	_, slot, found, err := b.find(key)
	if found {
		copy(to, b.slot(slot)[keyBytes:])
	}
	return found, err
}

// put sets the value of a key.
func (b *buckets) put(key taskKey, value []byte) error {
	at, slot, _, err := b.find(key)
	for err == nil && slot == b.slots() {
		if err = b.split(); err == nil {
			at, slot, _, err = b.find(key)
		}
	}
	if err != nil {
		return err
	}
	to := b.slot(slot)
	binary.LittleEndian.PutUint64(to, key[0])
	binary.LittleEndian.PutUint64(to[8:], key[1])
	copy(to[keyBytes:], value)
	return b.write(to, at+int64(slot*len(to)))
}

// drop removes a key. The last slot of the bucket takes its place.
func (b *buckets) drop(key taskKey) error {
	at, slot, found, err := b.find(key)
	if err != nil || !found {
		return err
	}
	last := slot
	for last+1 < b.slots() && keyIn(b.slot(last+1)) != (taskKey{}) {
		last++
	}
	copy(b.slot(slot), b.slot(last))
	clear(b.slot(last))
	return b.write(b.bucket[:], at)
}

// split makes two buckets of each, the last one first: so what is overwritten was read before.
func (b *buckets) split() error {
	var halves [2 * bucketBytes]byte
	size := keyBytes + b.value
	for i := int64(1)<<b.bits - 1; i >= 0; i-- {
		if _, err := b.file.ReadAt(b.bucket[:], i*bucketBytes); err != nil {
			return fmt.Errorf("read what was put aside of tasks: %w", err)
		}
		clear(halves[:])
		ends := [2]int{0, bucketBytes}
		for s := range b.slots() {
			key := keyIn(b.slot(s))
			if key == (taskKey{}) {
				break
			}
			half := key[0] >> (63 - b.bits) & 1
			copy(halves[ends[half]:], b.slot(s))
			ends[half] += size
		}
		if err := b.write(halves[:], 2*i*bucketBytes); err != nil {
			return err
		}
	}
	b.bits++
	return nil
}

func (b *buckets) write(bytes []byte, at int64) error {
	if _, err := b.file.WriteAt(bytes, at); err != nil {
		return fmt.Errorf("put tasks aside in %s: %w", filepath.Dir(b.file.Name()), err)
	}
	return nil
}
