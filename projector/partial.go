package projector

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// PartialSuffix ends the name of a checkpoint, or of a restored store, that is being made.
	PartialSuffix = ".partial"
	// partialMark is the file by which a directory of that name is known as one that was made here. It is written first.
	partialMark = "being-made"
	partialText = "sagalog makes or restores a checkpoint here. After the process was killed, this directory can be deleted.\n"
	// checkpointsLock is held, in a directory of checkpoints, while one is made there or what is half made is removed.
	checkpointsLock = ".sagalog-lock"
)

var (
	// ErrNotOurs is returned for a directory that is in the way and was not made here, so that it is not removed.
	ErrNotOurs = errors.New("sagalog did not make it and does not remove it; move it away, or give another name")
	// ErrCheckpointsLocked is returned while another process makes a checkpoint in the same directory.
	ErrCheckpointsLocked = errors.New("another process makes a checkpoint in this directory")
)

// beginPartial makes the directory in which something is made before it gets its name, in place of what a killed process left there.
func beginPartial(fs FS, dir string) error {
	if err := RemovePartial(fs, dir); err != nil {
		return err
	}
	// It may be empty. Then it is made again, because it may be readable by others.
	if err := fs.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := makeDir(fs, dir); err != nil {
		_ = fs.Remove(dir) // it is empty, if it exists
		return err
	}
	if err := writeMark(fs, dir); err != nil {
		return errors.Join(err, fs.RemoveAll(dir))
	}
	return nil
}

func writeMark(fs FS, dir string) error {
	f, err := fs.Create(fs.PathJoin(dir, partialMark), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, partialText)
	return errors.Join(err, f.Sync(), f.Close(), syncDir(fs, dir))
}

// RemovePartial removes a directory in which a killed process was making something. If it does not exist or is empty, nothing happens; what was
// not made here stays, and is an ErrNotOurs.
func RemovePartial(fs FS, dir string) error {
	notOurs := fmt.Errorf("%s is in the way: %w", dir, ErrNotOurs)
	info, err := fs.Stat(dir)
	if err == nil && !info.IsDir() {
		return notOurs
	}
	var names []string
	if err == nil {
		names, err = fs.List(dir)
	}
	if errors.Is(err, os.ErrNotExist) || err == nil && len(names) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s is in the way: %w", dir, err)
	}
	ours := []string{partialMark, checkpointState, CheckpointManifest, CheckpointManifest + PartialSuffix}
	foreign := func(name string) bool { return !slices.Contains(ours, name) }
	if !slices.Contains(names, partialMark) || slices.ContainsFunc(names, foreign) {
		return notOurs
	}
	return fs.RemoveAll(dir)
}

// makeDir makes a directory and those above it, durably.
func makeDir(fs FS, dir string) error {
	var above []string
	for d := dir; ; {
		if _, err := fs.Stat(d); err == nil {
			break
		}
		parent := fs.PathDir(d)
		if parent == d {
			break
		}
		above = append(above, parent)
		d = parent
	}
	err := fs.MkdirAll(dir, dirMode)
	for _, d := range above {
		if err == nil {
			err = syncDir(fs, d)
		}
	}
	return err
}

// LockCheckpoints makes a directory of checkpoints if it does not exist, and locks it: processes may share it.
func LockCheckpoints(fs FS, dir string) (io.Closer, error) {
	if err := makeDir(fs, dir); err != nil {
		return nil, err
	}
	lock, err := fs.Lock(fs.PathJoin(dir, checkpointsLock))
	if err == nil {
		return lock, nil
	}
	var path *os.PathError // the lock file could not be created
	if errors.As(err, &path) {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s (%w)", ErrCheckpointsLocked, dir, err)
}
