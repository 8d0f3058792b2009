package kafka

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Lock takes an exclusive lock on a file, which may not be there yet, and returns how to give it back. It is kept by the
// process, so it ends with it. It errors with *LockedError while another process has it.
func Lock(path string) (unlock func() error, err error) {
	lock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}

// LockFree errors with *LockedError while a process has the lock. It leaves no trace.
func LockFree(path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil // nobody was here yet
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDWR))
	ok, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	if ok {
		return lock.Unlock()
	}
	holder, _ := os.ReadFile(path) // without it the error still says which file
	return &LockedError{Path: path, Holder: strings.TrimSpace(string(holder))}
}

// lockFile takes the lock and writes into the file who has it. The file stays when the lock is given back: removing it
// would let a third process lock a new file of the same name while a second one holds the old.
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
		holder, _ := os.ReadFile(path) // without it the error still says which file
		return nil, &LockedError{Path: path, Holder: strings.TrimSpace(string(holder))}
	}
	holder := fmt.Sprintf("process %d, started %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(path, []byte(holder), 0o600); err != nil {
		_ = lock.Unlock() // the error of writing is the one to tell
		return nil, fmt.Errorf("lock the data directory: %w; make room there and let this user write it, or give another one", err)
	}
	return lock, nil
}
