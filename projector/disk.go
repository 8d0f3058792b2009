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

// diskErrors are the errors of a full or failing disk. Pebble retries a failed flush immediately and without end.
var diskErrors = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS}

func diskFails(err error) bool {
	return slices.ContainsFunc(diskErrors, func(e error) bool { return errors.Is(err, e) })
}

// abandoned says that this process removes its state stores and ends at once.
var abandoned atomic.Bool

// Abandon is called by a process that removes the directories of its stores while they are open and then ends at once. From then
// on a store that fails waits for that end, instead of ending the process itself with a panic.
func Abandon() { abandoned.Store(true) }

// end ends the process, as kill -9 would, when the store cannot be written. Nothing is lost: the next start folds from the
// log whatever is missing. (Closing the store instead is impossible: Pebble would wait for its flush.)
func end(log *slog.Logger, err error) {
	if abandoned.Load() {
		select {}
	}
	text := fmt.Sprintf("state store: %s: free some space or repair the disk, then start this process again; missing state is folded from the log", err.Error())
	log.Error(text)
	panic(text)
}

const diskRemedy = "free some space or repair the disk, or give another data directory; missing state is folded from the log"

// errPanicked wraps a panic of Pebble while a store is being opened. Nobody uses the store yet, so Open returns an error as for
// any other refusal, without a stack trace.
var errPanicked = errors.New("the state store cannot be opened")

// withoutPanic calls open for the store in dir and turns a panic into an error.
func withoutPanic(dir string, do func() error) (err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		cause, ok := r.(error)
		full := ok && diskFails(cause)
		if !ok { // Fatalf panics with a string
			cause = errors.New(fmt.Sprint(r))
			full = slices.ContainsFunc(diskErrors, func(e error) bool { return strings.Contains(cause.Error(), e.Error()) })
		}
		remedy := "if this persists, delete " + dir + ": it is rebuilt from the log"
		if full {
			remedy = diskRemedy
		}
		err = fmt.Errorf("%w: %s: %w; %s", errPanicked, dir, cause, remedy)
	}()
	return do()
}

// sayEvery is the interval at which a failing disk is reported.
const sayEvery = 10 * time.Second

// reportingFS logs when the disk fails, whatever Pebble does with the error.
type reportingFS struct {
	vfs.FS
	log  *slog.Logger
	said *atomic.Int64
}

func (t reportingFS) report(err error) error {
	if err == nil || !diskFails(err) {
		return err
	}
	now := time.Now().UnixNano()
	if last := t.said.Load(); now-last > int64(sayEvery) && t.said.CompareAndSwap(last, now) {
		t.log.Error("state store: the disk fails", "error", err.Error())
	}
	return err
}

// Pebble obtains the files that it writes to by Create and ReuseForWrite.
func (t reportingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return t.file(t.FS.Create(name, c))
}

func (t reportingFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return t.file(t.FS.ReuseForWrite(from, to, c))
}

// Unwrap is part of vfs.FS.
func (t reportingFS) Unwrap() vfs.FS { return t.FS }

func (t reportingFS) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, t.report(err)
	}
	return reportingFile{f, t}, nil
}

type reportingFile struct {
	vfs.File
	fs reportingFS
}

func (f reportingFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.fs.report(err)
}

func (f reportingFile) Sync() error     { return f.fs.report(f.File.Sync()) }
func (f reportingFile) SyncData() error { return f.fs.report(f.File.SyncData()) }

func (f reportingFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.fs.report(err)
}
