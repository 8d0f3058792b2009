package access

import (
	"log/slog"
	"time"

	"github.com/sagalog/sagalog/internal/secretfile"
)

// TokenFile is a file of tokens that is read again when it has changed. It is safe for concurrent use.
type TokenFile struct{ tokens *secretfile.File[[]Token] }

// OpenTokens reads a file of tokens.
func OpenTokens(path string, log *slog.Logger) (*TokenFile, error) {
	tokens, err := secretfile.Watch(func() ([]Token, error) { return ReadTokens(path) }, log, path)
	return &TokenFile{tokens}, err
}

// caller returns who has the token.
func (f *TokenFile) caller(text string, now time.Time) (Caller, error) {
	t, ok := find(f.tokens.Now(), text)
	if !ok {
		t, ok = find(f.tokens.Fresh(), text) // it may have been made a moment ago
	}
	switch {
	case !ok:
		return Caller{}, ErrUnknown
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return Caller{}, ErrExpired
	}
	return Caller{Name: t.Name, Role: t.Role, Expires: t.Expires}, nil
}
