package access

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sagalog/sagalog/internal/secretfile"
)

// maxBearer bounds the text of a token: those of identity providers have a few kilobytes.
const maxBearer = 16 << 10

// Gate recognizes the callers of the API. It is safe for concurrent use.
type Gate struct {
	// Tokens are those of a file; nil without such a file.
	Tokens *TokenFile
	// OIDC checks tokens of an identity provider; nil without one.
	OIDC *OIDC
	// Peers signs and checks requests between nodes.
	Peers *Peers
	// granted are tokens that only this process knows.
	granted []Token
}

// Grant returns a token that is valid for this process only. It is called before the gate is used.
func (g *Gate) Grant(name string, role Role) string {
	text := newText()
	sum := sha256.Sum256([]byte(text))
	g.granted = append(g.granted, Token{Name: name, Role: role, sum: sum[:]})
	return text
}

// Caller returns who sent a request, by its token.
func (g *Gate) Caller(r *http.Request) (Caller, error) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	text = strings.TrimSpace(text)
	switch {
	case !strings.EqualFold(scheme, "Bearer") || text == "":
		return Caller{}, ErrMissing
	case len(text) > maxBearer:
		return Caller{}, ErrUnknown
	}
	if t, ok := find(g.granted, text); ok {
		return Caller{Name: t.Name, Role: t.Role}, nil
	}
	switch {
	case g.OIDC != nil && !strings.HasPrefix(text, Prefix):
		return g.OIDC.caller(r.Context(), text)
	case g.Tokens != nil:
		return g.Tokens.caller(text, time.Now())
	}
	return Caller{}, ErrUnknown
}

// Sign signs a request that this node passes to another, in the name of the caller in its context.
func (g *Gate) Sign(r *http.Request, body []byte) {
	c, _ := CallerOf(r.Context()) // without one, the other node lets the request do nothing
	g.Peers.sign(r, c, body, time.Now())
}

// Passed returns the caller of a request that another node passed on. It reads the body by the function given, because that is signed too.
func (g *Gate) Passed(r *http.Request, read func() ([]byte, error)) (Caller, error) {
	c, want, ok := g.Peers.check(r, time.Now())
	if !ok {
		return Caller{}, ErrUnsigned
	}
	body, err := read()
	if err != nil {
		return Caller{}, err
	}
	if sum := sha256.Sum256(body); !hmac.Equal(sum[:], want) {
		return Caller{}, ErrUnsigned
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return c, nil
}

// While returns a context that ends when the token of a request is no longer valid, for requests that may take long.
func (g *Gate) While(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(2 * secretfile.LookEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			if _, err := g.Caller(r.WithContext(ctx)); err != nil {
				cancel()
				return
			}
		}
	}()
	return ctx, func() { cancel(); <-ended }
}
