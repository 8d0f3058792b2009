package access

import (
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// lookEvery is how often a file is looked at: revoking a token takes effect within that time, and a request rarely waits for a disk.
const lookEvery = time.Second

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

// refresh reads the files again if they have changed. mu is held.
func (w *watched[T]) refresh() {
	w.looked = time.Now()
	seen := w.look()
	if same(seen, w.seen) {
		return
	}
	w.seen = seen
	value, err := w.read()
	if err != nil {
		w.log.Error("a file of secrets has changed and cannot be used; what it held before stays valid", "files", w.paths, "error", err)
		return
	}
	w.value = value
	w.log.Info("a file of secrets was read again", "files", w.paths)
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

// TokenFile is a file of tokens that is read again when it has changed. It is safe for concurrent use.
type TokenFile struct{ watched[[]Token] }

// OpenTokens reads a file of tokens.
func OpenTokens(path string, log *slog.Logger) (*TokenFile, error) {
	f := &TokenFile{watched[[]Token]{paths: []string{path}, log: log, read: func() ([]Token, error) { return ReadTokens(path) }}}
	return f, f.open()
}

// caller returns who has the token.
func (f *TokenFile) caller(text string, now time.Time) (Caller, error) {
	t, ok := find(f.now(), text)
	if !ok {
		t, ok = find(f.fresh(), text) // it may have been made a moment ago
	}
	switch {
	case !ok:
		return Caller{}, ErrUnknown
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return Caller{}, ErrExpired
	}
	return Caller{Name: t.Name, Role: t.Role, Expires: t.Expires}, nil
}
