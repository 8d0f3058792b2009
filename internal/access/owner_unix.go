//go:build unix

package access

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner and the group of another one, if they differ.
func keepOwner(path string, of fs.FileInfo) error {
	now, err := os.Stat(path)
	if err != nil {
		return err
	}
	is, _ := now.Sys().(*syscall.Stat_t)
	was, _ := of.Sys().(*syscall.Stat_t)
	if is == nil || was == nil || is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	return os.Chown(path, int(was.Uid), int(was.Gid))
}
