package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/repeats"
)

const (
	// providerTimeout bounds one question to an identity provider, since a request waits for it.
	providerTimeout = 5 * time.Second
	// providerEvery is how often an identity provider that does not answer is asked for its configuration.
	providerEvery = 5 * time.Second
)

// OIDCConfig says which tokens of an identity provider are valid here, and what their holders may do.
type OIDCConfig struct {
	// Issuer is the URL of the identity provider.
	Issuer string
	// Audience is what the tokens must be for.
	Audience string
	// RoleClaim is the claim with the groups of the caller: a text or a list of texts. With dots it names a member of a claim.
	RoleClaim string
	// NameClaim is the claim with the caller's name.
	NameClaim string
	// Roles are the roles by group. A caller gets the highest one.
	Roles  map[string]Role
	Logger *slog.Logger
}

// OIDC checks tokens (JWT) of an identity provider. It is safe for concurrent use.
type OIDC struct {
	cfg    OIDCConfig
	client *http.Client

	mu       sync.Mutex // guards the fields below
	verifier *oidc.IDTokenVerifier
	asked    time.Time
}

// NewOIDC calls nobody: the engine starts, and works, without its identity provider.
func NewOIDC(cfg OIDCConfig) *OIDC {
	cfg.Logger = repeats.Limited(cfg.Logger) // anyone can send tokens that are not valid
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute}
	return &OIDC{cfg: cfg, client: &http.Client{Timeout: providerTimeout, Transport: &paced{next: transport, answered: map[string]time.Time{}}}}
}

// paced does not ask for what was answered a moment ago. The library asks for the keys once for each token that no known key has signed, and anyone
// can send such tokens.
type paced struct {
	next http.RoundTripper

	mu       sync.Mutex           // guards answered
	answered map[string]time.Time // by URL: the configuration and the keys
}

var errPaced = errors.New("the identity provider was asked for this a moment ago")

func (p *paced) RoundTrip(r *http.Request) (*http.Response, error) {
	url := r.URL.String()
	p.mu.Lock()
	recent := time.Since(p.answered[url]) < providerEvery
	p.mu.Unlock()
	if recent {
		return nil, errPaced
	}
	resp, err := p.next.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusOK {
		p.mu.Lock()
		p.answered[url] = time.Now()
		p.mu.Unlock()
	}
	return resp, err
}

// CloseIdleConnections is called by the client.
func (p *paced) CloseIdleConnections() {
	if c, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Reach asks the identity provider for its configuration, if that has not been done yet.
func (o *OIDC) Reach() error {
	_, err := o.provider()
	return err
}

// Close closes idle connections.
func (o *OIDC) Close() { o.client.CloseIdleConnections() }

// provider returns what verifies tokens. The configuration of the identity provider is asked for until it answers once; its keys are asked
// for again when a token has an unknown one.
func (o *OIDC) provider() (*oidc.IDTokenVerifier, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.verifier != nil {
		return o.verifier, nil
	}
	if time.Since(o.asked) < providerEvery {
		return nil, ErrNoAnswer
	}
	o.asked = time.Now()
	// Not the context of a request: the keys are fetched in this one, also later.
	defer func() { o.asked = time.Now() }() // those who waited for the answer must not ask again
	p, err := oidc.NewProvider(oidc.ClientContext(context.Background(), o.client), o.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	o.verifier = p.Verifier(&oidc.Config{ClientID: o.cfg.Audience})
	return o.verifier, nil
}

// caller returns who has the token.
func (o *OIDC) caller(ctx context.Context, text string) (Caller, error) {
	verifier, err := o.provider()
	if err != nil {
		o.cfg.Logger.Error("the identity provider cannot be asked, so its tokens are refused", "issuer", o.cfg.Issuer, "error", err)
		return Caller{}, ErrNoAnswer
	}
	token, err := verifier.Verify(ctx, text)
	if err != nil {
		return Caller{}, o.refusal(err)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return Caller{}, ErrUnknown
	}
	c := Caller{Name: token.Subject, Expires: token.Expiry.UTC()}
	if name, ok := claim(claims, o.cfg.NameClaim).(string); ok {
		c.Name = name
	}
	if c.Name == "" || len(c.Name) > events.MaxTaskID || !utf8.ValidString(c.Name) || strings.ContainsFunc(c.Name, unicode.IsControl) {
		return Caller{}, ErrUnknown
	}
	for _, group := range texts(claim(claims, o.cfg.RoleClaim)) {
		if role := o.cfg.Roles[group]; slices.Index(Roles, role) > slices.Index(Roles, c.Role) {
			c.Role = role
		}
	}
	if c.Role == "" {
		return Caller{}, ErrNoRole
	}
	return c, nil
}

// refusal returns why a token is not valid. The library's error names what it expected, but never the token.
func (o *OIDC) refusal(err error) error {
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); expired {
		return ErrExpired
	}
	if strings.Contains(err.Error(), errPaced.Error()) {
		return ErrUnknown // no key of a moment ago has signed it
	}
	if strings.HasPrefix(err.Error(), "failed to verify signature: fetching keys") { // the library has no better sign
		o.cfg.Logger.Error("the identity provider does not give its keys, so its tokens are refused", "issuer", o.cfg.Issuer, "error", err)
		return ErrNoAnswer
	}
	o.cfg.Logger.Warn("a token of the identity provider is refused", "issuer", o.cfg.Issuer, "error", err)
	return ErrUnknown
}

// claim returns a claim, or with dots in its name a member of one.
func claim(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	head, rest, dotted := strings.Cut(name, ".")
	inner, ok := claims[head].(map[string]any)
	if !dotted || !ok {
		return nil
	}
	return claim(inner, rest)
}

func texts(v any) (list []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			if text, ok := one.(string); ok {
				list = append(list, text)
			}
		}
	}
	return list
}

// ParseRoleOf reads GROUP=ROLE.
func ParseRoleOf(text string) (group string, role Role, err error) {
	i := strings.LastIndex(text, "=")
	if i <= 0 {
		return "", "", fmt.Errorf("%q is not GROUP=ROLE, such as engineers=operator", text)
	}
	role, err = ParseRole(text[i+1:])
	return text[:i], role, err
}
