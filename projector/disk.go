package projector

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// diskErrors are what a disk says that is full or fails. Pebble tries a flush again at once and for ever.
var diskErrors = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS}

func diskFails(err error) bool {
	for _, e := range diskErrors {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// end ends the process, as kill -9 would, where the store cannot be written. Nothing is lost by that: what the next start
// does not find it folds from the log. (The store cannot be closed instead: Pebble waits for its flush.)
func end(log *slog.Logger, err error) {
	text := fmt.Sprintf("state store: %s: make room or mend the disk, and start this process again; what is missing is folded from the log", err.Error())
	log.Error(text)
	panic(text)
}

const diskRemedy = "make room or mend the disk, or give another data directory; what is missing is folded from the log"

// errPanicked is what Pebble panics with while a store is opened. Nobody was told yet that there is a store, so it ends as
// any other refusal does, and not with the stack of a library.
var errPanicked = errors.New("the state store cannot be opened")

// withoutPanic does what opens the store in dir.
func withoutPanic(dir string, do func() error) (err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		cause, ok := r.(error)
		full := ok && diskFails(cause)
		if !ok { // a text of Fatalf
			cause = errors.New(fmt.Sprint(r))
			full = slices.ContainsFunc(diskErrors, func(e error) bool { return strings.Contains(cause.Error(), e.Error()) })
		}
		remedy := "if it stays so, delete " + dir + ": it is rebuilt from the log"
		if full {
			remedy = diskRemedy
		}
		err = fmt.Errorf("%w: %s: %w; %s", errPanicked, dir, cause, remedy)
	}()
	return do()
}

// sayEvery is how often one failing disk is told of.
const sayEvery = 10 * time.Second

// tellingFS says when the disk fails, whatever Pebble then makes of it.
type tellingFS struct {
	vfs.FS
	log  *slog.Logger
	said *atomic.Int64
}

func (t tellingFS) tell(err error) error {
	if err == nil || !diskFails(err) {
		return err
	}
	now := time.Now().UnixNano()
	if last := t.said.Load(); now-last > int64(sayEvery) && t.said.CompareAndSwap(last, now) {
		t.log.Error("state store: the disk fails", "error", err.Error())
	}
	return err
}

// Create and ReuseForWrite are how Pebble gets what it writes to.
func (t tellingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return t.file(t.FS.Create(name, c))
}

func (t tellingFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return t.file(t.FS.ReuseForWrite(from, to, c))
}

// Unwrap is part of vfs.FS.
func (t tellingFS) Unwrap() vfs.FS { return t.FS }

func (t tellingFS) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, t.tell(err)
	}
	return tellingFile{f, t}, nil
}

type tellingFile struct {
	vfs.File
	fs tellingFS
}

func (f tellingFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.fs.tell(err)
}

func (f tellingFile) Sync() error     { return f.fs.tell(f.File.Sync()) }
func (f tellingFile) SyncData() error { return f.fs.tell(f.File.SyncData()) }

func (f tellingFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.fs.tell(err)
}
