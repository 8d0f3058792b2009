package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	// leastFree is the minimum free space of the disk. The state store may write nearly as much at once, and a full disk ends the
	// process without advice and leaves the temporary data behind.
	leastFree = 128 << 20
	// diskEvery is the interval of the checks: even a fast log needs a second to fill leastFree.
	diskEvery = 100 * time.Millisecond
)

// watchDisk returns an error when the disk of a directory is nearly full, and nil when ctx ends.
func watchDisk(ctx context.Context, dir string, free func(string) (uint64, error)) error {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		left, err := free(dir)
		if err == nil && left < leastFree { // if the free space is unknown, there is nothing to report
			return fmt.Errorf("the disk of the data in %s has only %d MiB left, and %d are needed: make room there, or put the data elsewhere: TMPDIR names another place for temporary data, --data a directory to keep", dir, left>>20, leastFree>>20)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
