package access

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// target is the file that a path leads to: a link stays a link.
func target(path string) string {
	if file, err := filepath.EvalSymlinks(path); err == nil {
		return file
	}
	return path
}

// Replace writes a file with a secret as a whole: a process that reads it meanwhile sees either the old file or the new one. It keeps the mode and the
// owner of the file, so that the same processes can read the new one. A file that did not exist is readable for this user only.
func Replace(path string, data []byte) error {
	path = target(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // for this user only
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if old, missing := os.Stat(path); missing == nil && err == nil {
		err = errors.Join(os.Chmod(f.Name(), old.Mode().Perm()), keepOwner(f.Name(), old))
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error of the write says more
		return fmt.Errorf("%s is unchanged: %w", path, err)
	}
	return nil
}
