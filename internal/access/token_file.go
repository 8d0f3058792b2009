package access

import (
	"log/slog"
	"time"
)

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
