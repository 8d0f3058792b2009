package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
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
// on a store that fails waits for that end, instead of ending the process itself.
func Abandon() { abandoned.Store(true) }

// ending ends the process when the store of dir cannot go on.
type ending struct {
	dir  string
	fs   FS
	log  *slog.Logger
	code int
	// opened is set when Open has succeeded. Until then a fault is an error that Open returns.
	opened atomic.Bool
	// once is for several goroutines that fail together: the first says why.
	once sync.Once
}

// end ends the process at once, as kill -9 would. Nothing is lost: the next start folds from the log whatever is missing. (Closing the store
// instead is impossible: Pebble would wait for its flush.) The operator needs one line, not the stacks of all goroutines.
func (e *ending) end(cause, remedy string) {
	if abandoned.Load() {
		select {}
	}
	e.once.Do(func() {
		cause, _, _ = strings.Cut(cause, "\n") // a stack may follow
		text := fmt.Sprintf("state store %s%s: %s: %s; missing state is folded from the log", e.dir, e.free(), cause, remedy)
		if e.log.Enabled(context.Background(), slog.LevelError) {
			e.log.Error(text)
		} else {
			fmt.Fprintln(os.Stderr, text)
		}
		os.Exit(e.code)
	})
}

// free says how much space the disk has, as far as that is known.
func (e *ending) free() string {
	usage, err := e.fs.GetDiskUsage(e.dir)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (%d MiB free on its disk)", usage.AvailBytes>>20)
}

const (
	againRemedy = "free some space or repair the disk, then start this process again"
	faultRemedy = "start this process again, and if this persists, delete the directory"
)

// fatal ends the process after a fault that Pebble cannot go on with. While the store is being opened it panics, which Open turns into an error.
func (e *ending) fatal(text string) {
	if !e.opened.Load() {
		e.log.Error("state store: " + text)
		panic("state store: " + text)
	}
	remedy := faultRemedy
	if diskText(text) {
		remedy = againRemedy
	}
	e.end(text, remedy)
}

// diskText says whether a text tells of a full or failing disk. Pebble gives its fatal errors as texts.
func diskText(text string) bool {
	return slices.ContainsFunc(diskErrors, func(e error) bool { return strings.Contains(text, e.Error()) })
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
			full = diskText(cause.Error())
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
