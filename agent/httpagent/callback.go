package httpagent

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/agentfile"
	"github.com/sagalog/sagalog/internal/callback"
	"github.com/sagalog/sagalog/internal/yamltree"
)

// headerCallback holds the URL at which the service reports how the attempt ended. It is sent if the call has accepted.
const headerCallback = "Sagalog-Callback"

// Callback returns the URL at which the service reports an attempt that it accepts. again says that another call for the attempt may
// still be carried out when this one is over.
type Callback func(w *events.Work, again bool) (string, error)

// CallbackConfig says where services report what they accepted.
type CallbackConfig struct {
	// URL is the base of the engine's API, by which the services reach it: http://sagalog.example:8642.
	URL string
	// Key is the secret that the nodes with the role api have, too (--callback-key-file).
	Key string
}

// NewCallback returns the callback for all bindings of a process.
func NewCallback(c CallbackConfig) (Callback, error) {
	if err := CheckCallbackURL(c.URL); err != nil {
		return nil, err
	}
	keys, err := callback.NewKeys(c.Key)
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(c.URL, "/") + "/v1/reports/"
	return func(w *events.Work, again bool) (string, error) {
		ticket, err := keys.Sign(callback.Ticket{
			Task: w.Task, Run: w.Run, Step: w.Step, Operation: w.Operation, Attempt: w.Attempt, Incarnation: w.Ticket,
			StartedAt: events.At(time.Now()), Again: again,
		}, w.IdempotencyKey)
		return base + ticket, err
	}, nil
}

// CheckCallbackURL returns an error if callbacks cannot begin with a URL.
func CheckCallbackURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || !headerValue(s) {
		return errors.New("the URL of callbacks is not an absolute http or https URL without user, query and fragment, such as http://sagalog.example:8642")
	}
	return nil
}

// SetCallback gives the binding its callback. It is called before Register.
func (b *Binding) SetCallback(c Callback) { b.callback = c }

// Accepting returns where the binding says that its service may report later (accepted); false if it does not say so. Such a binding needs a callback.
func (b *Binding) Accepting() (Fault, bool) {
	for _, name := range agentfile.Names(b.calls) {
		for _, op := range []events.Operation{events.Do, events.Undo} {
			if c := b.calls[events.Call{Function: name, Operation: op}]; c != nil && len(c.accepted) > 0 {
				return Fault{
					File: b.File, Line: c.acceptedAt.Line, Column: c.acceptedAt.Column, Message: "accepted needs a callback, by which the service reports the outcome",
				}, true
			}
		}
	}
	return Fault{}, false
}

// accepted reads the statuses after which the service reports the outcome itself.
func (p *parser) accepted(n *yaml.Node, c *call) {
	c.accepted, c.acceptedAt = p.statuses(n), yamltree.Of(n)
	for _, code := range c.accepted {
		if code > 299 {
			p.Fault(n, "status %d in accepted does not say that the service took the work: use a status from 200 to 299, such as 202", code)
		}
	}
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		p.Fault(n, "accepted is empty: leave it out, or name a status, such as 202")
	}
}

// setCallback sets the header by which the service reports later, and remembers the ticket, which no output or message may hold.
func (b *Binding) setCallback(ctx context.Context, h http.Header, c *call, w *events.Work, g *grant) *agent.Failure {
	if len(c.accepted) == 0 {
		return nil
	}
	if b.callback == nil {
		return agentfile.Refusal("callback", errors.New("this agent has no callback, which accepted needs"))
	}
	a, _ := agent.FromContext(ctx)
	at, err := b.callback(w, a.Again)
	if err != nil {
		return agentfile.Refusal("callback", err)
	}
	h[headerCallback] = []string{at}
	g.ticket = at[strings.LastIndexByte(at, '/')+1:]
	return nil
}

// ticketHidden replaces the ticket of the request in what a service answers.
func (g *grant) ticketHidden() *agentfile.Secrets {
	if g.ticket == "" {
		return nil
	}
	return agentfile.NewSecrets(map[string]string{"the ticket of the callback": g.ticket})
}

// newSingleClient returns a client for calls that the service may accept. It keeps no connection. net/http sends a request again by itself if a kept
// connection breaks, and the ticket, which is signed before, could not say that the first sending may still be carried out.
func newSingleClient(b *Binding) *http.Client {
	c := newClient(b)
	c.Transport.(*http.Transport).DisableKeepAlives = true
	return c
}
