package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	// leastFree is what a disk must have left. Not less: the state store may write so much at once, and a full disk ends the
	// process, without a word on which disk to take instead, and with the temporary data left on it.
	leastFree = 128 << 20
	// diskEvery is how often it is looked at: even a fast log needs a second for leastFree.
	diskEvery = 100 * time.Millisecond
)

// watchDisk errors when the disk of a directory is nearly full, and ends without an error when ctx does.
func watchDisk(ctx context.Context, dir string, free func(string) (uint64, error)) error {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		left, err := free(dir)
		if err == nil && left < leastFree { // what cannot be asked is not known to be wrong
			return fmt.Errorf("the disk of the data in %s is full but for %d MiB, and %d are needed: make room there, or have the data elsewhere: TMPDIR names another place for temporary data, --data a directory that stays", dir, left>>20, leastFree>>20)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
