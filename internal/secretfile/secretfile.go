package secretfile

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

// LookEvery is how often a file is looked at: revoking a token takes effect within that time, and a request rarely waits for a disk.
const LookEvery = time.Second

// maxFile bounds a secret file: about 5,000 tokens.
const maxFile = 1 << 20

// File is a file, or several that belong together, read again when one has changed. What cannot be used changes nothing. It is safe for
// concurrent use.
type File[T any] struct {
	paths []string
	read  func() (T, error)
	log   *slog.Logger

	mu sync.Mutex // guards the fields below
	// looked is when the files were last looked at, and seen what they were then.
	looked time.Time
	seen   []fs.FileInfo
	value  T
	// fault is why the files as they are cannot be used, "" if they can. It is logged once.
	fault string
}

// Open reads a private file. parse reads what it holds; its errors must not repeat that.
func Open[T any](path string, parse func(text []byte) (T, error), log *slog.Logger) (*File[T], error) {
	return Watch(func() (value T, err error) {
		text, _, err := ReadPrivate(path)
		if err != nil {
			return value, err
		}
		if value, err = parse(text); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return value, err
	}, log, path)
}

// Watch calls read, and calls it again when one of the files at the paths has changed.
func Watch[T any](read func() (T, error), log *slog.Logger, paths ...string) (*File[T], error) {
	w := &File[T]{paths: paths, read: read, log: log, looked: time.Now()}
	w.seen = w.look()
	var err error
	w.value, err = w.read()
	return w, err
}

// Now returns the value of the files as of a second ago at most.
func (w *File[T]) Now() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.looked) >= LookEvery {
		w.refresh()
	}
	return w.value
}

// Fresh returns the value of the files as they are.
func (w *File[T]) Fresh() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refresh()
	return w.value
}

// refresh reads the files again if they have changed, or could not be used: a disk or a mount may be back. mu is held.
func (w *File[T]) refresh() {
	w.looked = time.Now()
	seen := w.look()
	changed := !same(seen, w.seen)
	if !changed && w.fault == "" {
		return
	}
	w.seen = seen
	value, err := w.read()
	if err != nil {
		if changed || err.Error() != w.fault {
			w.log.Error("a file has changed and cannot be used; what it held before stays valid", "files", w.paths, "error", err)
		}
		w.fault = err.Error()
		return
	}
	w.value, w.fault = value, ""
	w.log.Info("a file has changed and was read again", "files", w.paths)
}

// look returns what the files are now; nil for one that is gone.
func (w *File[T]) look() []fs.FileInfo {
	list := make([]fs.FileInfo, len(w.paths))
	for i, path := range w.paths {
		list[i], _ = os.Stat(path) // reading it says why
	}
	return list
}

func same(a, b []fs.FileInfo) bool {
	return slices.EqualFunc(a, b, func(a, b fs.FileInfo) bool {
		if a == nil || b == nil {
			return a == nil && b == nil
		}
		return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
	})
}

// ReadPrivate reads a file, and refuses it if everyone on the machine can read or change it. Its group may read it: that is how secrets are
// mounted into containers.
func ReadPrivate(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if err := private(path, info); err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return data, info, err
}

func private(path string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case runtime.GOOS != "windows" && mode.Perm()&0o027 != 0: // Windows has no such bits
		return fmt.Errorf("%s has the mode %04o, so others can read or change it: run `chmod 600 %s`", path, mode.Perm(), path)
	}
	return nil
}
