package httpagent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
	"github.com/sagalog/sagalog/internal/yamltree"
)

// Parse reads the bindings of one file. The error is of the type Faults.
func Parse(file string, data []byte, env func(string) (string, bool)) ([]*Binding, error) {
	if len(data) > fileLimit {
		return nil, Faults{{file, 1, 1, fmt.Sprintf("the file is larger than %d bytes", fileLimit)}}
	}
	var docs []yaml.Node
	if err := yaml.Load(data, &docs, yaml.WithAllDocuments()); err != nil {
		at, message := yamltree.Syntax(err)
		return nil, Faults{{file, at.Line, at.Column, message}}
	}
	var out []*Binding
	var faults Faults
	for i := range docs {
		p := &parser{file: file, data: data, lookup: env, values: map[string]string{}, hidden: map[string]string{}}
		if b := p.document(&docs[i]); b != nil && len(p.faults) == 0 {
			out = append(out, b)
		}
		faults = append(faults, p.faults...)
	}
	if len(faults) > 0 {
		slices.SortStableFunc(faults, func(a, b Fault) int { return (a.Line-b.Line)*100_000 + a.Column - b.Column })
		return nil, faults
	}
	return out, nil
}

// parser reads one document and collects its faults.
type parser struct {
	file   string
	data   []byte
	lookup func(string) (string, bool)
	// values are the environment variables that the document names.
	values map[string]string
	// hidden holds the variables that are secret, and public the names of the others.
	hidden map[string]string
	public []string
	// open says that the variables named now are not secret.
	open   bool
	faults Faults
}

// field reads one known member of a mapping.
type field func(*yaml.Node)

func (p *parser) fault(n *yaml.Node, format string, args ...any) {
	p.faultAt(yamltree.Of(n), format, args...)
}

func (p *parser) faultAt(at yamltree.Place, format string, args ...any) {
	p.faults = append(p.faults, Fault{p.file, at.Line, at.Column, fmt.Sprintf(format, args...)})
}

func (p *parser) document(n *yaml.Node) *Binding {
	if n.Kind == yaml.DocumentNode {
		if len(n.Content) == 0 {
			return nil
		}
		n = n.Content[0]
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil // an empty document, such as before a first "---"
	}
	b := &Binding{
		File: p.file, concurrency: DefaultConcurrency, calls: map[events.Operation]*call{},
	}
	seen := p.mapping(n, map[string]field{
		"agent": func(n *yaml.Node) { p.name(n, &b.Agent) },
		"http":  func(n *yaml.Node) { p.http(n, b) },
		"do":    func(n *yaml.Node) { b.calls[events.Do] = p.call(n, doVars) },
		"undo":  func(n *yaml.Node) { b.calls[events.Undo] = p.call(n, undoVars) },
	})
	p.require(n, seen, "agent", "http", "do")
	p.finish(n, b)
	return b
}

// The variables that are visible to the expressions of a binding.
var (
	baseVars = []string{"env"}
	doVars   = []string{"input", "task", "step", "attempt", "env"}
	undoVars = append(slices.Clone(doVars), "output")
	// An output sees no env: it becomes a fact.
	outputVars = []string{"status", "headers", "body", "input", "task", "step", "attempt"}
)

// finish sets the fields that depend on the whole document.
func (p *parser) finish(n *yaml.Node, b *Binding) {
	env, err := events.Marshal(p.values)
	if err != nil {
		p.fault(n, "an environment variable cannot be used: %v", err)
		return
	}
	b.env = env
	for _, name := range p.public {
		delete(p.hidden, name)
	}
	if b.base != nil && b.base.User != nil {
		if password, ok := b.base.User.Password(); ok {
			p.hidden["the password of base"] = password
		}
	}
	b.secrets = newSecrets(p.hidden)
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
		p.fault(n, "oauth sets the header Authorization: leave it out of headers")
	}
}

func (p *parser) http(n *yaml.Node, b *Binding) {
	seen := p.mapping(n, map[string]field{
		"base":        func(n *yaml.Node) { b.base = p.base(n) },
		"concurrency": func(n *yaml.Node) { p.integer(n, &b.concurrency, agent.MaxConcurrency) },
		"breaker":     func(n *yaml.Node) { p.breaker(n, &b.breaker) },
		"timeout":     func(n *yaml.Node) { p.duration(n, &b.timeout) },
		"headers":     func(n *yaml.Node) { b.headers = p.headers(n, doVars) },
		"retry":       func(n *yaml.Node) { p.retry(n, &b.retry) },
		"public":      p.publicNames,
		"oauth":       func(n *yaml.Node) { p.oauth(n, b) },
		"tls":         func(n *yaml.Node) { p.tls(n, b) },
		"direct": func(n *yaml.Node) {
			if b.direct = n.Value == "true"; n.Kind != yaml.ScalarNode || !b.direct && n.Value != "false" {
				p.fault(n, "direct is true if no proxy, balancer or mesh stands between this agent and the service, or false")
			}
		},
		"limit": func(n *yaml.Node) {
			if b.fixed = n.Value == "fixed"; n.Kind != yaml.ScalarNode || !b.fixed && n.Value != "adaptive" {
				p.fault(n, "limit is adaptive, which is the default, or fixed")
			}
		},
	})
	p.require(n, seen, "base")
}

func (p *parser) breaker(n *yaml.Node, b *agent.Breaker) {
	p.mapping(n, map[string]field{
		"failures": func(n *yaml.Node) {
			v, err := strconv.ParseFloat(n.Value, 64)
			if n.Kind != yaml.ScalarNode || err != nil || !(v > 0 && v <= 1) {
				p.fault(n, "failures is a rate above 0 and up to 1, such as 0.5")
				return
			}
			b.Failures = v
		},
		"window": func(n *yaml.Node) { p.duration(n, &b.Window) },
		"calls":  func(n *yaml.Node) { p.integer(n, &b.Calls, 1_000_000) },
		"open":   func(n *yaml.Node) { p.duration(n, &b.Open) },
	})
}

// publicNames reads the variables whose values are not secret.
func (p *parser) publicNames(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		p.fault(n, "public is a list of environment variables, such as [REGION]")
		return
	}
	for _, e := range n.Content {
		var name string
		if p.text(e, &name) {
			p.public = append(p.public, name)
		}
	}
}

// retry reads the tries of an attempt. Without this key there is one.
func (p *parser) retry(n *yaml.Node, r *agent.Retry) {
	*r = agent.DefaultRetry
	p.mapping(n, map[string]field{
		"tries":       func(n *yaml.Node) { p.integer(n, &r.Tries, agent.MaxTries) },
		"backoff":     func(n *yaml.Node) { p.duration(n, &r.Backoff) },
		"max_backoff": func(n *yaml.Node) { p.duration(n, &r.BackoffMax) },
	})
}

var methods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions,
}

func (p *parser) call(n *yaml.Node, vars []string) *call {
	c := &call{}
	seen := p.mapping(n, map[string]field{
		"method": func(n *yaml.Node) {
			if p.text(n, &c.method) && !slices.Contains(methods, c.method) {
				p.fault(n, "unknown method %q, %s", c.method, events.Suggest(c.method, methods))
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
				p.fault(n, "output belongs to do: nothing reads the output of an undo")
				return
			}
			c.output = p.body(n, outputVars)
		},
		"gone": func(n *yaml.Node) {
			undo := slices.Contains(vars, "output")
			if c.gone = undo && n.Kind == yaml.ScalarNode && n.Value == "undone"; !c.gone {
				p.fault(n, "gone belongs to undo, and its only value is undone: 404 and 410 always mean that there is nothing left to undo")
			}
		},
	})
	p.require(n, seen, "method", "path")
	for _, code := range c.success {
		if slices.Contains(c.retryOn, code) {
			p.fault(n, "status %d is both in success and in retry_on", code)
		}
	}
	for _, code := range c.accepted {
		if slices.Contains(c.retryOn, code) || slices.Contains(c.success, code) {
			p.fault(n, "status %d is both in accepted and in success or retry_on", code)
		}
	}
	return c
}

// statuses reads a list of HTTP statuses.
func (p *parser) statuses(n *yaml.Node) []int {
	if n.Kind != yaml.SequenceNode {
		p.fault(n, "must be a list of statuses, such as [404, 409]")
		return nil
	}
	var out []int
	for _, e := range n.Content {
		code, err := strconv.Atoi(resolve(e).Value)
		if err != nil || resolve(e).Kind != yaml.ScalarNode || code < 200 || code > 599 {
			p.fault(e, "must be a status from 200 to 599")
			continue
		}
		out = append(out, code)
	}
	return out
}

// query reads the parameters that are added to the path.
func (p *parser) query(n *yaml.Node, vars []string) *exprlang.Template {
	if n.Kind != yaml.MappingNode {
		p.fault(n, "query is a mapping of names to values, such as {limit: 10}")
		return nil
	}
	return p.body(n, vars)
}

func (p *parser) base(n *yaml.Node) *url.URL {
	p.open = true
	t := p.template(n, nil, baseVars)
	p.open = false
	if t == nil || len(p.faults) > 0 {
		return nil
	}
	// The fault does not show the value: it may hold a password.
	s, err := t.Eval(exprlang.NewScope(map[string]json.RawMessage{"env": mustMarshal(p.values)}))
	if err != nil {
		p.fault(n, "%v", err)
		return nil
	}
	u, err := url.Parse(strings.TrimSuffix(s, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		p.fault(n, "base is not an absolute http or https URL")
		return nil
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		p.fault(n, "base cannot have a query or a fragment; the query belongs to the path of do and undo")
		return nil
	}
	return u
}

func (p *parser) path(n *yaml.Node, vars []string) *exprlang.Text {
	if n.Kind == yaml.ScalarNode && !strings.HasPrefix(n.Value, "/") {
		p.fault(n, "path must begin with a slash, such as /items/${ input.id }")
		return nil
	}
	return p.template(n, escapeValue, vars)
}

// reserved are the headers that the agent sets itself, and the hop-by-hop headers.
var reserved = []string{
	headerKey, headerTask, headerAttempt, headerRun, headerStep, headerUndoes, headerTrace, headerCallback,
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Trailer", "Te",
}

func (p *parser) headers(n *yaml.Node, vars []string) []headerTemplate {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		p.fault(n, "headers is a mapping of names to text")
		return nil
	}
	var out []headerTemplate
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		name := textproto.CanonicalMIMEHeaderKey(k.Value)
		switch {
		case !headerName(name):
			p.fault(k, "%q is not a header name", k.Value)
		case slices.Contains(reserved, name):
			p.fault(k, "header %s is set by the agent", name)
		case slices.ContainsFunc(out, func(h headerTemplate) bool { return h.name == name }):
			p.fault(k, "header %s is set twice", name)
		default:
			if t := p.template(v, nil, vars); t != nil {
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
			p.template(place, nil, vars)
		}
	}
	if len(p.faults) > 0 {
		return nil
	}
	t, err := exprlang.Compile(mustMarshal(v), vars...)
	if err != nil {
		p.expressionFaults(n, err, places)
	}
	return t
}

// template compiles a string with expressions.
func (p *parser) template(n *yaml.Node, escape func(string) string, vars []string) *exprlang.Text {
	var s string
	if !p.text(n, &s) {
		return nil
	}
	n = resolve(n)
	t, err := exprlang.CompileString(s, escape, vars...)
	if err != nil {
		p.expressionFaults(n, err, nil)
		return nil
	}
	for _, r := range t.References() {
		p.reference(n, r)
	}
	return t
}

// reference looks up an environment variable that an expression names.
func (p *parser) reference(n *yaml.Node, r exprlang.Reference) {
	if r.Path[0] != "env" {
		return
	}
	if len(r.Path) < 2 {
		p.faultAt(yamltree.Within(p.data, n, r.Offset), "name one variable of the environment, as in env.NAME")
		return
	}
	v, ok := p.lookup(r.Path[1])
	if !ok {
		p.faultAt(yamltree.Within(p.data, n, r.Offset), "the environment has no variable %s", r.Path[1])
		return
	}
	p.values[r.Path[1]] = v
	if !p.open {
		p.hidden[r.Path[1]] = v
	}
}

func (p *parser) expressionFaults(n *yaml.Node, err error, places map[string]*yaml.Node) {
	var all exprlang.Errors
	if !errors.As(err, &all) {
		p.fault(n, "%v", err)
		return
	}
	for _, e := range all {
		p.faultAt(yamltree.Within(p.data, cmp.Or(places[e.Pointer], n), e.Offset), "%s", e.Message)
	}
}

func (p *parser) name(n *yaml.Node, into *string) {
	if !p.text(n, into) {
		return
	}
	if err := agent.CheckName(*into); err != nil {
		p.fault(n, "%v", err)
	}
}

func (p *parser) integer(n *yaml.Node, into *int, most int) {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < 1 || v > most {
		p.fault(n, "must be a whole number from 1 to %d", most)
		return
	}
	*into = v
}

func (p *parser) duration(n *yaml.Node, into *time.Duration) {
	d, err := events.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode:
		p.fault(n, "must be a duration such as 10s")
	case err != nil:
		p.fault(n, "%v", err)
	case d <= 0:
		p.fault(n, "must be longer than zero")
	default:
		*into = d.Std()
	}
}
