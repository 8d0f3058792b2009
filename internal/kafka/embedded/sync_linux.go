package embedded

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// syncsWhole says that wholeDisk works on this system.
const syncsWhole = true

// wholeDisk syncs the file system that holds a folder. It keeps one handle for as long as the broker runs. The kernel reports an error of
// the file system once to each handle that was open at that time, so a handle opened for each sync would miss errors that were reported to
// another process.
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

// sync returns when everything that was written before to any file of the file system is on the disk. A broker has many files, and this
// call costs little more than the sync of one of them.
func (d *wholeDisk) sync() error {
	if err := unix.Syncfs(int(d.f.Fd())); err != nil {
		return fmt.Errorf("sync the disk of %s: %w", d.dir, err)
	}
	return nil
}

func (d *wholeDisk) close() { _ = d.f.Close() } // nothing was written through it
