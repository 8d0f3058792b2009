package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// syncsWhole says that disk works on this system.
const syncsWhole = true

const (
	// fewFiles is how many files are synced one by one. With ext4, the sync of the whole file system takes about as long as that of eight files
	// at the same time. That of a few files is faster, most of all when other processes write to the file system too.
	fewFiles = 4
	// settledAfter is how old the last change of a folder must be for its time to show a later change. The clock of a file system may
	// advance in steps of 10 ms.
	settledAfter = time.Second
	// groupsFile holds the offsets of groups.
	groupsFile = "groups.log"
)

// disk syncs the files of a data directory. It keeps a handle for each file, and one for the file system, for as long as the broker runs. The kernel
// reports an error once to each handle that was open at that time, so a handle opened for each sync would miss errors that were reported to
// another process. For the same reason the first sync of a file is that of the whole file system, after the file was opened. It covers the
// file's name too.
type disk struct {
	dir  string
	f    *os.File
	logs map[partition]*segmentHandle
	// groups is the handle of groupsFile, nil until it is written.
	groups *os.File

	// syncFile and syncAll make the system calls. Tests replace them.
	syncFile, syncAll func(*os.File) error
}

// segmentHandle is the handle of a log's last segment, the only one that the broker appends to.
type segmentHandle struct {
	f    *os.File
	base int64
	// changed is when the folder had changed for the last time before the segment was found to be the last one, or zero if it may have
	// changed again at the same time.
	changed time.Time
}

func openDisk(dir string) (*disk, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("sync the disk: %w", err)
	}
	return &disk{
		dir: dir, f: f, logs: make(map[partition]*segmentHandle),
		syncFile: func(f *os.File) error { return retried(unix.Fdatasync, f) },
		syncAll:  func(f *os.File) error { return retried(unix.Syncfs, f) },
	}, nil
}

// retried makes a system call until no signal interrupts it.
func retried(call func(int) error, f *os.File) error {
	for {
		if err := call(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// sync returns when what was written before to these files is on the disk. It must not be called concurrently.
func (d *disk) sync(w written) error {
	if w.everything {
		d.forget()
		return d.syncWhole()
	}
	files, opened := d.open(w)
	if !opened || len(files) > fewFiles {
		return d.syncWhole()
	}
	return d.syncEach(files)
}

// syncWhole syncs the file system.
func (d *disk) syncWhole() error {
	if err := d.syncAll(d.f); err != nil {
		return fmt.Errorf("sync the disk of %s: %w", d.dir, err)
	}
	return nil
}

// syncEach syncs files at the same time, so that they share the work of the file system.
func (d *disk) syncEach(files []*os.File) error {
	errs := make([]error, len(files))
	var all sync.WaitGroup
	for i, f := range files {
		one := func() {
			if err := d.syncFile(f); err != nil {
				errs[i] = fmt.Errorf("sync %s: %w", f.Name(), err)
			}
		}
		if i == len(files)-1 {
			one()
			break
		}
		all.Go(one)
	}
	all.Wait()
	return errors.Join(errs...)
}

// open returns the handles of the written files, and whether all of them were open before. If one was not, the caller syncs everything.
func (d *disk) open(w written) (files []*os.File, opened bool) {
	opened = true
	for _, at := range w.logs {
		f, before := d.segment(at)
		files, opened = append(files, f), opened && before
	}
	if w.groups {
		before := d.openGroups()
		files, opened = append(files, d.groups), opened && before
	}
	return files, opened
}

// segment returns the handle of a log's last segment, and whether it was open before.
func (d *disk) segment(at partition) (*os.File, bool) {
	folder := filepath.Join(d.dir, "partitions", logFolder(at.topic, int(at.number)))
	h, now := d.logs[at], time.Now()
	info, err := os.Stat(folder)
	if err != nil {
		return nil, false // nothing was written, or the topic is deleted
	}
	if h != nil && !h.changed.IsZero() && h.changed.Equal(info.ModTime()) {
		return h.f, true
	}
	base, err := lastSegment(folder)
	if err != nil {
		return nil, false
	}
	var changed time.Time
	if info.ModTime().Before(now.Add(-settledAfter)) {
		changed = info.ModTime()
	}
	path := filepath.Join(folder, segmentName(base))
	if h != nil && h.base == base && isAt(h.f, path) {
		h.changed = changed
		return h.f, true
	}
	if h != nil {
		_ = h.f.Close() // nothing was written through it
		delete(d.logs, at)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	d.logs[at] = &segmentHandle{f: f, base: base, changed: changed}
	return f, false
}

// openGroups opens groupsFile if it is not open, or was replaced, and reports whether it was open before.
func (d *disk) openGroups() bool {
	path := filepath.Join(d.dir, groupsFile)
	if d.groups != nil && isAt(d.groups, path) {
		return true
	}
	if d.groups != nil {
		_ = d.groups.Close()
	}
	d.groups = nil
	if f, err := os.Open(path); err == nil {
		d.groups = f
	}
	return false
}

// lastSegment returns the first offset of a log's last segment.
func lastSegment(folder string) (int64, error) {
	f, err := os.Open(folder)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	last := int64(-1)
	for _, name := range names {
		if text, ok := strings.CutSuffix(name, ".dat"); ok {
			if base, err := strconv.ParseInt(text, 10, 64); err == nil {
				last = max(last, base)
			}
		}
	}
	if err == nil && last < 0 {
		err = fs.ErrNotExist
	}
	return last, err
}

// isAt reports whether a path still leads to an open file.
func isAt(f *os.File, path string) bool {
	is, err := f.Stat()
	at, aterr := os.Stat(path)
	return err == nil && aterr == nil && os.SameFile(is, at)
}

// forget closes the handles of logs that are gone.
func (d *disk) forget() {
	for at, h := range d.logs {
		if !isAt(h.f, filepath.Join(d.dir, "partitions", logFolder(at.topic, int(at.number)), segmentName(h.base))) {
			_ = h.f.Close()
			delete(d.logs, at)
		}
	}
}

func (d *disk) close() {
	for _, h := range d.logs {
		_ = h.f.Close()
	}
	for _, f := range slices.DeleteFunc([]*os.File{d.f, d.groups}, func(f *os.File) bool { return f == nil }) {
		_ = f.Close()
	}
}
