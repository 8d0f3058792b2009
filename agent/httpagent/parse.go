package httpagent

import (
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/agentfile"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// parser reads one document.
type parser struct{ *agentfile.Reader }

// field reads one known member of a mapping.
type field = agentfile.Field

func bind(r *agentfile.Reader, n *yaml.Node) agentfile.Binding {
	p := &parser{r}
	b := &Binding{
		File: r.File(), concurrency: DefaultConcurrency, calls: map[events.Call]*call{},
	}
	seen := p.Mapping(n, map[string]field{
		"agent": func(n *yaml.Node) { p.Agent(n, &b.Agent) },
		"http":  func(n *yaml.Node) { p.http(n, b) },
		"do":    func(n *yaml.Node) { b.calls[events.Call{Operation: events.Do}] = p.call(n, doVars) },
		"undo":  func(n *yaml.Node) { b.calls[events.Call{Operation: events.Undo}] = p.call(n, undoVars) },
		agentfile.KeyOperations: func(n *yaml.Node) {
			p.Operations(n, func(name string, n *yaml.Node) { p.operation(n, name, b) })
		},
	})
	p.Require(n, seen, "agent", "http")
	if !seen[agentfile.KeyOperations] || seen["undo"] {
		p.Require(n, seen, "do")
	}
	p.finish(n, b)
	return b
}

// operation reads the requests of an operation with a name.
func (p *parser) operation(n *yaml.Node, name string, b *Binding) {
	seen := p.Mapping(n, map[string]field{
		"do":   func(n *yaml.Node) { b.calls[events.Call{Function: name, Operation: events.Do}] = p.call(n, doVars) },
		"undo": func(n *yaml.Node) { b.calls[events.Call{Function: name, Operation: events.Undo}] = p.call(n, undoVars) },
	})
	p.Require(n, seen, "do")
}

// The variables that are visible to the expressions of a binding.
var (
	doVars   = []string{"input", "task", "step", "attempt", "progress", "env"}
	undoVars = append(slices.Clone(doVars), "output")
	// An output sees no env: it becomes a fact.
	outputVars = []string{"status", "headers", "body", "input", "task", "step", "attempt", "progress"}
)

// finish sets the fields that depend on the whole document.
func (p *parser) finish(n *yaml.Node, b *Binding) {
	if b.base != nil && b.base.User != nil {
		if password, ok := b.base.User.Password(); ok {
			p.Hide("the password of base", password)
		}
	}
	b.env, b.secrets = p.Environment(n)
	b.client, b.single = newClient(b), newSingleClient(b)
	if b.tokens != nil {
		b.tokens.client = b.client
		p.soleAuthorization(n, b)
	}
	if b.base != nil {
		b.root = (&url.URL{Scheme: b.base.Scheme, Host: b.base.Host}).String()
	}
}

// soleAuthorization refuses headers that the access token would replace.
func (p *parser) soleAuthorization(n *yaml.Node, b *Binding) {
	all := slices.Clone(b.headers)
	for _, c := range b.calls {
		if c != nil {
			all = append(all, c.headers...)
		}
	}
	if slices.ContainsFunc(all, func(h headerTemplate) bool { return h.name == "Authorization" }) {
		p.Fault(n, "oauth sets the header Authorization: leave it out of headers")
	}
}

func (p *parser) http(n *yaml.Node, b *Binding) {
	seen := p.Mapping(n, map[string]field{
		"base":        func(n *yaml.Node) { b.base = p.base(n) },
		"concurrency": func(n *yaml.Node) { p.Integer(n, &b.concurrency, agent.MaxConcurrency) },
		"breaker":     func(n *yaml.Node) { p.breaker(n, &b.breaker) },
		"timeout":     func(n *yaml.Node) { p.Duration(n, &b.timeout) },
		"headers":     func(n *yaml.Node) { b.headers = p.headers(n, doVars) },
		"retry":       func(n *yaml.Node) { p.retry(n, &b.retry) },
		"public":      p.Public,
		"oauth":       func(n *yaml.Node) { p.oauth(n, b) },
		"tls":         func(n *yaml.Node) { p.tls(n, b) },
		"direct": func(n *yaml.Node) {
			if b.direct = n.Value == "true"; n.Kind != yaml.ScalarNode || !b.direct && n.Value != "false" {
				p.Fault(n, "direct is true if no proxy, balancer or mesh stands between this agent and the service, or false")
			}
		},
		"limit": func(n *yaml.Node) {
			if b.fixed = n.Value == "fixed"; n.Kind != yaml.ScalarNode || !b.fixed && n.Value != "adaptive" {
				p.Fault(n, "limit is adaptive, which is the default, or fixed")
			}
		},
	})
	p.Require(n, seen, "base")
}

func (p *parser) breaker(n *yaml.Node, b *agent.Breaker) {
	p.Mapping(n, map[string]field{
		"failures": func(n *yaml.Node) {
			v, err := strconv.ParseFloat(n.Value, 64)
			if n.Kind != yaml.ScalarNode || err != nil || !(v > 0 && v <= 1) {
				p.Fault(n, "failures is a rate above 0 and up to 1, such as 0.5")
				return
			}
			b.Failures = v
		},
		"window": func(n *yaml.Node) { p.Duration(n, &b.Window) },
		"calls":  func(n *yaml.Node) { p.Integer(n, &b.Calls, 1_000_000) },
		"open":   func(n *yaml.Node) { p.Duration(n, &b.Open) },
	})
}

// retry reads the tries of an attempt. Without this key there is one.
func (p *parser) retry(n *yaml.Node, r *agent.Retry) {
	*r = agent.DefaultRetry
	p.Mapping(n, map[string]field{
		"tries":       func(n *yaml.Node) { p.Integer(n, &r.Tries, agent.MaxTries) },
		"backoff":     func(n *yaml.Node) { p.Duration(n, &r.Backoff) },
		"max_backoff": func(n *yaml.Node) { p.Duration(n, &r.BackoffMax) },
	})
}

var methods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions,
}

func (p *parser) call(n *yaml.Node, vars []string) *call {
	c := &call{}
	seen := p.Mapping(n, map[string]field{
		"method": func(n *yaml.Node) {
			if p.Text(n, &c.method) && !slices.Contains(methods, c.method) {
				p.Fault(n, "unknown method %q, %s", c.method, events.Suggest(c.method, methods))
			}
		},
		"path":    func(n *yaml.Node) { c.path = p.path(n, vars) },
		"headers": func(n *yaml.Node) { c.headers = p.headers(n, vars) },
		"body":    func(n *yaml.Node) { c.body = p.body(n, vars) },
		"query":   func(n *yaml.Node) { c.query = p.query(n, vars) },
		"success": func(n *yaml.Node) { c.success = p.statuses(n) },
		"retry_on": func(n *yaml.Node) {
			c.retryOn = p.statuses(n)
		},
		"accepted": func(n *yaml.Node) { p.accepted(n, c) },
		"output": func(n *yaml.Node) {
			if slices.Contains(vars, "output") {
				p.Fault(n, "output belongs to do: nothing reads the output of an undo")
				return
			}
			c.output = p.body(n, outputVars)
		},
		"gone": func(n *yaml.Node) {
			undo := slices.Contains(vars, "output")
			if c.gone = undo && n.Kind == yaml.ScalarNode && n.Value == "undone"; !c.gone {
				p.Fault(n, "gone belongs to undo, and its only value is undone: 404 and 410 always mean that there is nothing left to undo")
			}
		},
	})
	p.Require(n, seen, "method", "path")
	for _, code := range c.success {
		if slices.Contains(c.retryOn, code) {
			p.Fault(n, "status %d is both in success and in retry_on", code)
		}
	}
	for _, code := range c.accepted {
		if slices.Contains(c.retryOn, code) || slices.Contains(c.success, code) {
			p.Fault(n, "status %d is both in accepted and in success or retry_on", code)
		}
	}
	return c
}

// statuses reads a list of HTTP statuses.
func (p *parser) statuses(n *yaml.Node) []int {
	if n.Kind != yaml.SequenceNode {
		p.Fault(n, "must be a list of statuses, such as [404, 409]")
		return nil
	}
	var out []int
	for _, e := range n.Content {
		code, err := strconv.Atoi(agentfile.Resolve(e).Value)
		if err != nil || agentfile.Resolve(e).Kind != yaml.ScalarNode || code < 200 || code > 599 {
			p.Fault(e, "must be a status from 200 to 599")
			continue
		}
		out = append(out, code)
	}
	return out
}

// query reads the parameters that are added to the path.
func (p *parser) query(n *yaml.Node, vars []string) *exprlang.Template {
	if n.Kind != yaml.MappingNode {
		p.Fault(n, "query is a mapping of names to values, such as {limit: 10}")
		return nil
	}
	return p.body(n, vars)
}

func (p *parser) base(n *yaml.Node) *url.URL {
	s, ok := p.Constant(n)
	if !ok {
		return nil
	}
	u, err := url.Parse(strings.TrimSuffix(s, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		p.Fault(n, "base is not an absolute http or https URL")
		return nil
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		p.Fault(n, "base cannot have a query or a fragment; the query belongs to the path of do and undo")
		return nil
	}
	return u
}

func (p *parser) path(n *yaml.Node, vars []string) *exprlang.Text {
	if n.Kind == yaml.ScalarNode && !strings.HasPrefix(n.Value, "/") {
		p.Fault(n, "path must begin with a slash, such as /items/${ input.id }")
		return nil
	}
	return p.Template(n, escapeValue, vars)
}

// reserved are the headers that the agent sets itself, and the hop-by-hop headers.
var reserved = []string{
	headerKey, headerTask, headerAttempt, headerRun, headerStep, headerUndoes, headerTrace, headerCallback,
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Trailer", "Te",
}

func (p *parser) headers(n *yaml.Node, vars []string) []headerTemplate {
	n = agentfile.Resolve(n)
	if n.Kind != yaml.MappingNode {
		p.Fault(n, "headers is a mapping of names to text")
		return nil
	}
	var out []headerTemplate
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		name := textproto.CanonicalMIMEHeaderKey(k.Value)
		switch {
		case !headerName(name):
			p.Fault(k, "%q is not a header name", k.Value)
		case slices.Contains(reserved, name):
			p.Fault(k, "header %s is set by the agent", name)
		case slices.ContainsFunc(out, func(h headerTemplate) bool { return h.name == name }):
			p.Fault(k, "header %s is set twice", name)
		default:
			if t := p.Template(v, nil, vars); t != nil {
				out = append(out, headerTemplate{name, t})
			}
		}
	}
	return out
}

func (p *parser) body(n *yaml.Node, vars []string) *exprlang.Template {
	places := map[string]*yaml.Node{}
	v, ok := p.value(n, "", places)
	if !ok || v == nil {
		return nil
	}
	// Each text is first compiled alone, because one that does not compile would otherwise hide the variables that the others
	// name.
	for _, place := range places {
		if place.Kind == yaml.ScalarNode && place.ShortTag() == "!!str" {
			p.Template(place, nil, vars)
		}
	}
	if p.Faulty() {
		return nil
	}
	t, err := exprlang.Compile(mustMarshal(v), vars...)
	if err != nil {
		p.ExpressionFaults(n, err, places)
	}
	return t
}
