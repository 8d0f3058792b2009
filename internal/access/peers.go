package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/internal/secretfile"
)

const (
	// headerCaller names the caller of a request that a node passes on: role and name.
	headerCaller = "Sagalog-Caller"
	// headerSignature is the signature of such a request: its time, the hash of its body, and the MAC of all that is signed.
	headerSignature = "Sagalog-Signature"
	// signedFor is how far apart the clocks of two nodes may be: twice what an owner tolerates.
	signedFor = 2 * time.Minute
	// LeastSecret is the length of the shortest secret: 128 random bits in hexadecimal digits.
	LeastSecret = 32
	// peerPurpose separates these keys from others that are derived from the same secret, and names the form of the signature.
	peerPurpose = "sagalog node request 1\x00"
)

// signedHeaders are the headers that are signed, besides the caller: to whom the request goes, which partitions it is about, and what
// makes a repeat harmless.
var signedHeaders = []string{
	headerCaller, "Sagalog-Forwarded", "Sagalog-Partitions", "Idempotency-Key", "Content-Type", "Accept", "Last-Event-Id",
}

// Peers signs and checks requests between the nodes of a namespace. It is safe for concurrent use.
type Peers struct {
	// keys returns the valid keys, at most a second out of date; fresh looks at the file now.
	keys, fresh func() [][]byte
}

// NewPeers derives the keys from the text of a secret. It may have two lines, so that a secret can be replaced: the first one signs,
// and both are valid. Without a secret the keys are random: then no other node can pass requests to this one.
func NewPeers(namespace, secrets string) (*Peers, error) {
	if strings.TrimSpace(secrets) == "" {
		random := make([]byte, sha256.Size)
		_, _ = rand.Read(random) // it never fails
		return fixedPeers([][]byte{random}), nil
	}
	keys, err := peerKeys(namespace, secrets)
	if err != nil {
		return nil, err
	}
	return fixedPeers(keys), nil
}

func fixedPeers(keys [][]byte) *Peers {
	return &Peers{func() [][]byte { return keys }, func() [][]byte { return keys }}
}

// OpenPeers reads the secret from a file, and again when the file has changed.
func OpenPeers(namespace, path string, log *slog.Logger) (*Peers, error) {
	keys, err := secretfile.Open(path, func(text []byte) ([][]byte, error) { return peerKeys(namespace, string(text)) }, log)
	return &Peers{keys.Now, keys.Fresh}, err
}

func peerKeys(namespace, secrets string) (keys [][]byte, err error) {
	for i, line := range strings.Split(strings.TrimSpace(secrets), "\n") {
		secret := strings.TrimSpace(line)
		switch {
		case len(secret) < LeastSecret:
			return nil, fmt.Errorf("line %d of the key of the nodes has %d characters: use at least %d random ones, "+
				"such as those of `openssl rand -hex 32`", i+1, len(secret), LeastSecret)
		case i == 2:
			return nil, errors.New("the key of the nodes has more than 2 lines")
		}
		keys = append(keys, mac([]byte(secret), peerPurpose+namespace))
	}
	return keys, nil
}

// sign adds the caller and the signature. Nothing that is signed may change after it.
func (p *Peers) sign(r *http.Request, c Caller, body []byte, now time.Time) {
	r.Header.Set(headerCaller, string(c.Role)+" "+url.PathEscape(c.Name))
	sum := sha256.Sum256(body)
	at, hash := strconv.FormatInt(now.Unix(), 10), hex.EncodeToString(sum[:])
	r.Header.Set(headerSignature, at+" "+hash+" "+hex.EncodeToString(mac(p.keys()[0], signed(r, r.URL.RequestURI(), at, hash))))
}

// check returns the caller of a request that another node signed, and the hash that its body has.
func (p *Peers) check(r *http.Request, now time.Time) (c Caller, body []byte, ok bool) {
	for _, name := range append([]string{headerSignature}, signedHeaders...) {
		if len(r.Header.Values(name)) > 1 {
			return Caller{}, nil, false // only the first one is signed
		}
	}
	parts := strings.Split(r.Header.Get(headerSignature), " ")
	if len(parts) != 3 {
		return Caller{}, nil, false
	}
	at, errAt := strconv.ParseInt(parts[0], 10, 64)
	body, errBody := hex.DecodeString(parts[1])
	given, errMAC := hex.DecodeString(parts[2])
	if errAt != nil || errBody != nil || errMAC != nil {
		return Caller{}, nil, false
	}
	text := signed(r, r.RequestURI, parts[0], parts[1])
	signs := func(key []byte) bool { return hmac.Equal(given, mac(key, text)) }
	if !slices.ContainsFunc(p.keys(), signs) && !slices.ContainsFunc(p.fresh(), signs) { // a new key may have come a moment ago
		return Caller{}, nil, false
	}
	if now.Sub(time.Unix(at, 0)).Abs() > signedFor {
		return Caller{}, nil, false
	}
	role, name, _ := strings.Cut(r.Header.Get(headerCaller), " ")
	name, err := url.PathUnescape(name)
	return Caller{Name: name, Role: Role(role)}, body, err == nil
}

// signed is the text that is signed. No part of it can contain a line break.
func signed(r *http.Request, uri, at, hash string) string {
	lines := []string{r.Method, uri, at, hash}
	for _, name := range signedHeaders {
		lines = append(lines, r.Header.Get(name))
	}
	return strings.Join(lines, "\n")
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
