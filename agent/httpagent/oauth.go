package httpagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v4"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/agentfile"
)

// tokens gets access tokens by client credentials, and keeps one until shortly before it expires.
type tokens struct {
	config clientcredentials.Config
	client *http.Client
	// turn holds one value: the call that takes it may use the fields below.
	turn    chan struct{}
	current *oauth2.Token
	// hidden replaces the current token in what a service answers.
	hidden *agentfile.Secrets
}

// oauth reads where access tokens come from.
func (p *parser) oauth(n *yaml.Node, b *Binding) {
	t := &tokens{turn: make(chan struct{}, 1)}
	seen := p.Mapping(n, map[string]field{
		"token_url": func(n *yaml.Node) {
			s, ok := p.Constant(n)
			u, err := url.Parse(s)
			if ok && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil) {
				p.Fault(n, "token_url is not an absolute http or https URL without a user")
			}
			t.config.TokenURL = s
		},
		"client_id":     func(n *yaml.Node) { t.config.ClientID, _ = p.Constant(n) },
		"client_secret": func(n *yaml.Node) { t.config.ClientSecret, _ = p.Secret(n) },
		"scopes": func(n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				p.Fault(n, "scopes is a list, such as [orders.write]")
				return
			}
			for _, e := range n.Content {
				var scope string
				if p.Text(e, &scope) {
					t.config.Scopes = append(t.config.Scopes, scope)
				}
			}
		},
	})
	p.Require(n, seen, "token_url", "client_id", "client_secret")
	b.tokens = t
}

// grant is what authorized one request, and what it authorizes the service to do.
type grant struct {
	token string
	// hidden replaces the token in what a service answers; nil replaces nothing.
	hidden *agentfile.Secrets
	// kept says that the token was got for an earlier request, so it may have been revoked.
	kept bool
	// ticket is that of the callback, empty without one.
	ticket string
}

// authorize sets the Authorization of a request. A token that cannot be had is a retryable failure without effect: the request was
// not sent.
func (t *tokens) authorize(ctx context.Context, h http.Header, g *grant) *agent.Failure {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return t.failure("no token in time")
	}
	g.kept = t.current.Valid()
	if !g.kept {
		token, err := t.config.Token(context.WithValue(ctx, oauth2.HTTPClient, t.client))
		if err != nil {
			return t.failure(reason(err))
		}
		t.current, t.hidden = token, agentfile.NewSecrets(map[string]string{"the access token": token.AccessToken})
	}
	g.token, g.hidden = t.current.AccessToken, t.hidden
	if !headerValue(g.token) {
		t.current = nil
		return t.failure("the token has control characters")
	}
	h.Set("Authorization", t.current.Type()+" "+g.token)
	return nil
}

// forget drops a token that was answered 401, unless it has been replaced already.
func (t *tokens) forget(token string) {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if t.current != nil && t.current.AccessToken == token {
		t.current = nil
	}
}

func (t *tokens) failure(text string) *agent.Failure {
	u, _ := url.Parse(t.config.TokenURL)
	return &agent.Failure{Class: events.ClassRetryable, Effect: events.EffectNone, Code: "token",
		Err: fmt.Errorf("get a token from POST %s://%s%s: %s", u.Scheme, u.Host, events.Clip(u.Path, targetLimit), text)}
}

// reason says why there is no token, without the answer's body: it may repeat the credentials.
func reason(err error) string {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		text := "answered " + refused.Response.Status
		return strings.TrimSuffix(text+": "+cmp.Or(refused.ErrorDescription, refused.ErrorCode), ": ")
	}
	if inURL, ok := errors.AsType[*url.Error](err); ok {
		return withoutAddress(inURL.Err)
	}
	return "the answer holds no token"
}
