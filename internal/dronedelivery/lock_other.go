//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package dronedelivery

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockDir only creates the file here: these systems have other calls to lock files, and for an example the ports are protection
// enough.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "services.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return f, nil
}
