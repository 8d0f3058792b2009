package access

import (
	"log/slog"
)

// Secret is a private file with a secret that is read again when it has changed. It is safe for concurrent use.
type Secret[T any] struct{ watched[T] }

// OpenSecret reads a private file. parse reads what it holds; its errors must not repeat that.
func OpenSecret[T any](path string, parse func([]byte) (T, error), log *slog.Logger) (*Secret[T], error) {
	read := func() (value T, err error) {
		data, _, err := readPrivate(path)
		if err != nil {
			return value, err
		}
		return parse(data)
	}
	s := &Secret[T]{watched[T]{paths: []string{path}, log: log, read: read}}
	return s, s.open()
}

// Now returns the secret as of a second ago at most.
func (s *Secret[T]) Now() T { return s.now() }

// Fresh returns the secret as it is.
func (s *Secret[T]) Fresh() T { return s.fresh() }
