package projector

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func sumText(sum uint32) string { return fmt.Sprintf("%08x", sum) }

func sumFile(fs FS, dir, name string) (file CheckpointFile, err error) {
	f, err := fs.Open(fs.PathJoin(dir, name), vfs.SequentialReadsOption)
	if err != nil {
		return file, err
	}
	h := crc32.New(castagnoli)
	n, err := io.Copy(h, f)
	return CheckpointFile{Name: name, Bytes: n, Sum: sumText(h.Sum32())}, errors.Join(err, f.Close())
}

// Restore makes the store in dir, which must not exist, from the checkpoint in from, whose manifest is c. It first compares each file with
// its checksum. Tables are hard links where possible: a store never changes them. Whenever the process dies, or the power fails, dir is the
// whole store or does not exist. The caller compares the anchors with the log. fs is nil for the disk.
func (c *Checkpoint) Restore(fs FS, from, dir string) error {
	fs = cmp.Or(fs, vfs.Default)
	if _, err := fs.Stat(dir); err == nil {
		return fmt.Errorf("restore a checkpoint: %s: %w", dir, os.ErrExist)
	}
	state := fs.PathJoin(from, checkpointState)
	if err := c.intact(fs, state); err != nil {
		return fmt.Errorf("%w: %s: %w; use another checkpoint, or start without it: the state is folded from the log", ErrCheckpoint, from, err)
	}
	partial := dir + PartialSuffix
	if err := beginPartial(fs, partial); err != nil {
		return fmt.Errorf("restore a checkpoint: %w", err)
	}
	made := fs.PathJoin(partial, checkpointState)
	err := fs.MkdirAll(made, dirMode)
	for _, f := range c.Files {
		if err == nil {
			err = place(fs, fs.PathJoin(state, f.Name), fs.PathJoin(made, f.Name))
		}
	}
	if err == nil {
		err = syncDir(fs, made)
	}
	if err == nil {
		err = publish(fs, made, dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("restore a checkpoint: %w", err), fs.RemoveAll(partial))
	}
	_ = fs.RemoveAll(partial) // holds the mark only; the next one removes it too
	return nil
}

// place links a table and copies any other file, durably. What cannot be linked is copied: it may be on another file system, or belong to
// another user.
func place(fs FS, from, to string) error {
	if !isTable(from) || fs.Link(from, to) != nil {
		return vfs.Copy(fs, from, to)
	}
	f, err := fs.Open(to)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close()) // the checkpoint may be a copy that was never synced
}

// intact compares the files with their checksums.
func (c *Checkpoint) intact(fs FS, dir string) error {
	if len(c.Files) == 0 {
		return fmt.Errorf("%s names no file", CheckpointManifest)
	}
	for _, want := range c.Files {
		if strings.ContainsAny(want.Name, `/\`) || want.Name == "" || strings.HasPrefix(want.Name, ".") {
			return fmt.Errorf("%s names the file %q, which is no name of a file of a store", CheckpointManifest, want.Name)
		}
		found, err := sumFile(fs, dir, want.Name)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("the file %s is missing", want.Name)
		case err != nil:
			return err
		case found != want:
			return fmt.Errorf("the file %s is damaged: it has %d bytes with checksum %s, and the manifest says %d with %s",
				want.Name, found.Bytes, found.Sum, want.Bytes, want.Sum)
		}
	}
	return nil
}

// OnDisk is the file system of this machine.
func OnDisk() FS { return vfs.Default }

// FoundCheckpoint is a checkpoint in a directory of checkpoints.
type FoundCheckpoint struct {
	// Name is that of its directory, and Dir the path.
	Name, Dir string
	Checkpoint
	// Err is what ReadCheckpoint says against it.
	Err error
}

// FindCheckpoints returns the checkpoints in dir, the newest first, those that cannot be read last. What is half made does not count. If
// dir does not exist, the list is empty.
func FindCheckpoints(fs FS, dir string) (list []FoundCheckpoint, err error) {
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		if strings.HasSuffix(name, PartialSuffix) || strings.HasPrefix(name, ".") {
			continue
		}
		if info, err := fs.Stat(path); err != nil || !info.IsDir() {
			continue
		}
		c, err := ReadCheckpoint(fs, path)
		list = append(list, FoundCheckpoint{Name: name, Dir: path, Checkpoint: c, Err: err})
	}
	slices.SortFunc(list, func(a, b FoundCheckpoint) int {
		return cmp.Or(compareUse(a.Err, b.Err), cmp.Compare(b.Time, a.Time), strings.Compare(b.Name, a.Name))
	})
	return list, nil
}

// compareUse puts what can be used before what cannot.
func compareUse(a, b error) int {
	switch {
	case a == nil && b != nil:
		return -1
	case a != nil && b == nil:
		return 1
	}
	return 0
}
