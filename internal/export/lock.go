package export

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// lockFile is locked in the directory of a table while it is written. It stays, and readers of the directory skip its name.
const lockFile = "_export.lock"

// BusyError says that another export writes to the directory.
type BusyError struct{ Dir string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("another export is writing to %s: wait until it ends, and repeat the command to continue what it leaves, or give another directory", e.Dir)
}

// lock takes the directory of a table for this export. The lock ends with the process.
func lock(dir string) (unlock func() error, err error) {
	if err := ours(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	l := flock.New(filepath.Join(dir, lockFile), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o644))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", l.Path(), err)
	}
	if !ok {
		return nil, &BusyError{dir}
	}
	return l.Unlock, nil
}

// ours returns ErrOther unless a directory is new, is empty, or holds an export.
func ours(dir string) error {
	list, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range list {
		if e.Name() == planFile || e.Name() == lockFile {
			return nil
		}
	}
	if len(list) > 0 {
		err = fmt.Errorf("%w: %s is not empty, and has no %s: give another directory", ErrOther, dir, planFile)
	}
	return err
}
