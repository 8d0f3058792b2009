package access

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

// lookEvery is how often a file is looked at: revoking a token takes effect within that time, and a request rarely waits for a disk.
const lookEvery = time.Second

// maxFile bounds a secret file: about 5,000 tokens.
const maxFile = 1 << 20

// watched is a file that is read again when it has changed. What cannot be used changes nothing.
type watched[T any] struct {
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

func (w *watched[T]) open() (err error) {
	w.looked, w.seen = time.Now(), w.look()
	w.value, err = w.read()
	return err
}

// now returns the value of the files as of a second ago at most.
func (w *watched[T]) now() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.looked) >= lookEvery {
		w.refresh()
	}
	return w.value
}

// fresh returns the value of the files as they are.
func (w *watched[T]) fresh() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refresh()
	return w.value
}

// refresh reads the files again if they have changed, or could not be used: a disk or a mount may be back. mu is held.
func (w *watched[T]) refresh() {
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
func (w *watched[T]) look() []fs.FileInfo {
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

// Secret is a private file with a secret that is read again when it has changed. It is safe for concurrent use.
type Secret[T any] struct{ *watched[T] }

// OpenSecret reads a private file. parse reads what it holds; its errors must not repeat that. A changed file that cannot be used changes
// nothing.
func OpenSecret[T any](path string, parse func(text []byte) (T, error), log *slog.Logger) (*Secret[T], error) {
	w := watchedSecret(path, parse, log)
	return &Secret[T]{w}, w.open()
}

func watchedSecret[T any](path string, parse func(text []byte) (T, error), log *slog.Logger) *watched[T] {
	return &watched[T]{paths: []string{path}, log: log, read: func() (value T, err error) {
		text, _, err := readPrivate(path)
		if err != nil {
			return value, err
		}
		if value, err = parse(text); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return value, err
	}}
}

// Now returns the secret as of a second ago at most.
func (s *Secret[T]) Now() T { return s.now() }

// Fresh returns the secret as it is.
func (s *Secret[T]) Fresh() T { return s.fresh() }

// readPrivate reads a file, and refuses it if everyone on the machine can read or change it. Its group may read it: that is how secrets are
// mounted into containers.
func readPrivate(path string) ([]byte, fs.FileInfo, error) {
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
