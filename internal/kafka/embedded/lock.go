package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Lock takes an exclusive lock on a file, which it creates if needed, and returns a function that releases the lock. The lock
// ends with the process. Lock returns a *LockedError while another process has it.
func Lock(path string) (unlock func() error, err error) {
	lock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}

// LockFree returns a *LockedError while a process has the lock. It does not create the file.
func LockFree(path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil // never locked
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDWR))
	ok, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	if ok {
		return lock.Unlock()
	}
	return held(path)
}

func held(path string) *LockedError {
	holder, _ := os.ReadFile(path) // without it the error still says which file
	return &LockedError{Path: path, Holder: strings.TrimSpace(string(holder))}
}

// lockFile takes the lock and writes into the file who has it. The file stays when the lock is released. If it were removed, another
// process could lock a new file of that name while a second one holds the old file.
func lockFile(path string) (*flock.Flock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the lock file: %w", err)
	}
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !ok {
		return nil, held(path)
	}
	holder := fmt.Sprintf("process %d, started %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(path, []byte(holder), 0o600); err != nil {
		_ = lock.Unlock() // the error of writing is the one to return
		return nil, fmt.Errorf("lock the data directory: %w; free space there and let this user write to it, or choose another data directory", err)
	}
	return lock, nil
}
