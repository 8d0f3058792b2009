package kafka

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// syncsWhole is whether wholeDisk does anything here.
const syncsWhole = true

// wholeDisk syncs the file system that a folder is in. It is one handle for as long as a broker runs: the kernel tells an
// error of that file system once to each handle that was open then, so a handle of each sync's own would not hear of an
// error that another process's sync was told.
type wholeDisk struct {
	dir string
	f   *os.File
}

func openDisk(dir string) (*wholeDisk, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("sync the disk: %w", err)
	}
	return &wholeDisk{dir, f}, nil
}

// sync returns when all that was written before, to any file of the file system, is on the disk. The files of a broker's
// partitions are many, and one such call costs little more than the sync of one of them.
func (d *wholeDisk) sync() error {
	if err := unix.Syncfs(int(d.f.Fd())); err != nil {
		return fmt.Errorf("sync the disk of %s: %w", d.dir, err)
	}
	return nil
}

func (d *wholeDisk) close() { _ = d.f.Close() } // nothing was written by it
