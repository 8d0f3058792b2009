package sealing

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/sagalog/sagalog/internal/secretfile"
	"github.com/tink-crypto/tink-go/v2/aead/subtle"
)

const (
	// keyBytes is the size of all keys: AES-256.
	keyBytes = 32
	// mostKeys bounds the lines of a key file. Two are needed to replace one.
	mostKeys = 8
)

// wrapper is a key-encryption key.
type wrapper struct {
	// name is its fingerprint, by which records say who wraps them.
	name string
	aead *subtle.AESGCM
}

// wrappers are the keys of a file. The first one wraps, and all of them unwrap.
type wrappers []wrapper

// KeyFile is the file of the key-encryption keys. It is read again when it has changed.
type KeyFile struct {
	path string
	*secretfile.File[wrappers]
}

// OpenKeyFile reads a key file, which only its owner and its group may read.
func OpenKeyFile(path string, log *slog.Logger) (*KeyFile, error) {
	s, err := secretfile.Open(path, readKeys, log)
	if err != nil {
		return nil, fmt.Errorf("the file of the sealing key: %w", err)
	}
	return &KeyFile{path, s}, nil
}

// IDs returns the IDs of the keys in the file, in the order of its lines: the fingerprints by which data keys say which key wraps them. They tell
// nothing about the keys.
func (f *KeyFile) IDs() (ids []string) {
	for _, w := range f.Now() {
		ids = append(ids, w.name)
	}
	return ids
}

// NewKey returns a line of a key file.
func NewKey() string { return hex.EncodeToString(randomBytes(keyBytes)) }

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return b
}

func readKeys(data []byte) (list wrappers, err error) {
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		key, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil || len(key) != keyBytes {
			return nil, fmt.Errorf("line %d is not a key of %d hexadecimal digits, such as `sagalog key create` writes", i+1, 2*keyBytes)
		}
		if i == mostKeys {
			return nil, fmt.Errorf("it has more than %d lines: remove those that wrap no data key any more (`sagalog key list`)", mostKeys)
		}
		w, err := newWrapper(key)
		if err != nil {
			return nil, errors.New("its key cannot be used")
		}
		list = append(list, w)
	}
	return list, nil
}

func newWrapper(key []byte) (wrapper, error) {
	aead, err := subtle.NewAESGCM(key)
	sum := sha256.Sum256(append([]byte("sagalog sealing key 1\x00"), key...))
	return wrapper{hex.EncodeToString(sum[:4]), aead}, err
}

// find returns the key with that fingerprint, nil if the file has none.
func (list wrappers) find(name string) *subtle.AESGCM {
	for _, w := range list {
		if w.name == name {
			return w.aead
		}
	}
	return nil
}
