//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package dronedelivery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockDir locks the directory for this process: two writers of one ledger would each remember half of it. The kernel releases
// the lock when the process ends, even by kill -9.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "services.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another process runs the services on %s (it holds %s)", dir, path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
