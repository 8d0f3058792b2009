package access

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"time"

	"github.com/gofrs/flock"
	"github.com/sagalog/sagalog/internal/secretfile"
)

const (
	// Prefix is what each token begins with, so that scanners for leaked secrets find it.
	Prefix = "sagalog_"
	// tokenBytes is how many random bytes a token has: guessing is hopeless, so a fast hash is enough.
	tokenBytes = 32
)

// tokenName matches the names of tokens. They stand in facts, and in paths of commands.
var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`)

// Token is an entry of a file of tokens. The token itself is in no file.
type Token struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	SHA256  string    `json:"sha256"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`

	sum []byte
}

// file is the form of a file of tokens.
type file struct {
	Tokens []Token `json:"tokens"`
}

func (t *Token) check() error {
	if !tokenName.MatchString(t.Name) {
		return fmt.Errorf("%q is not the name of a token: use up to 63 letters, digits and . _ @ -", t.Name)
	}
	if _, err := ParseRole(string(t.Role)); err != nil {
		return fmt.Errorf("token %s: %w", t.Name, err)
	}
	sum, err := hex.DecodeString(t.SHA256)
	if err != nil || len(sum) != sha256.Size {
		return fmt.Errorf("token %s: sha256 is not a hash of 64 hexadecimal digits", t.Name)
	}
	t.sum = sum
	return nil
}

// find returns the token whose hash is that of the text. It compares with all of them, whichever matches.
func find(list []Token, text string) (found Token, ok bool) {
	sum := sha256.Sum256([]byte(text))
	for i := range list {
		if subtle.ConstantTimeCompare(list[i].sum, sum[:]) == 1 {
			found, ok = list[i], true
		}
	}
	return found, ok
}

// ReadTokens reads a file of tokens.
func ReadTokens(path string) ([]Token, error) {
	list, _, err := readTokens(path)
	return list, err
}

func readTokens(path string) ([]Token, fs.FileInfo, error) {
	data, info, err := secretfile.ReadPrivate(path)
	if err != nil {
		return nil, nil, err
	}
	list, err := parseTokens(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, info, nil
}

func parseTokens(data []byte) ([]Token, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var f file
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("it is not a file of tokens, which `sagalog token create` makes: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is not a file of tokens: something follows its JSON object")
	}
	names, sums := map[string]bool{}, map[string]bool{}
	for i := range f.Tokens {
		t := &f.Tokens[i]
		if err := t.check(); err != nil {
			return nil, err
		}
		if names[t.Name] || sums[string(t.sum)] {
			return nil, fmt.Errorf("token %s is there twice: remove one entry", t.Name)
		}
		names[t.Name], sums[string(t.sum)] = true, true
	}
	return f.Tokens, nil
}

// New says what a new token is.
type New struct {
	Name string
	Role Role
	// For is how long it is valid; zero: until it is revoked.
	For time.Duration
	Now time.Time
}

// Create adds a token to a file, which it makes if it does not exist, and returns the text of the token, which nobody can get again.
func Create(path string, n New) (text string, err error) {
	release, err := lock(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	list, err := ReadTokens(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if slices.ContainsFunc(list, func(t Token) bool { return t.Name == n.Name }) {
		return "", fmt.Errorf("%s: %w: %s", path, ErrExists, n.Name)
	}
	text = newText()
	sum := sha256.Sum256([]byte(text))
	t := Token{Name: n.Name, Role: n.Role, SHA256: hex.EncodeToString(sum[:]), Created: n.Now.UTC().Truncate(time.Second)}
	if n.For > 0 {
		t.Expires = n.Now.Add(n.For).UTC().Truncate(time.Second)
	}
	if err := t.check(); err != nil {
		return "", err
	}
	return text, writeTokens(path, append(list, t))
}

func newText() string {
	random := make([]byte, tokenBytes)
	_, _ = rand.Read(random) // it never fails
	return Prefix + base64.RawURLEncoding.EncodeToString(random)
}

// Revoke removes a token from a file.
func Revoke(path, name string) (err error) {
	release, err := lock(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	list, err := ReadTokens(path)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(list), func(t Token) bool { return t.Name == name })
	if len(left) == len(list) {
		return fmt.Errorf("%s: %w: %s", path, ErrNotFound, name)
	}
	return writeTokens(path, left)
}

// lock lets one command at a time change the file: of two that overlap, one would take back what the other did.
func lock(path string) (release func() error, err error) {
	path = target(path)
	l := flock.New(path+".lock", flock.SetPermissions(0o600))
	if err := l.Lock(); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path+".lock", err)
	}
	return l.Close, nil
}

// writeTokens replaces the file.
func writeTokens(path string, list []Token) error {
	data, err := json.MarshalIndent(file{append([]Token{}, list...)}, "", "  ")
	if err != nil {
		return err
	}
	return Replace(path, append(data, '\n'))
}
