package agent

import (
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

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// ParseBindings reads the bindings of one file. The error is of the type Faults.
func ParseBindings(file string, data []byte, env func(string) (string, bool)) ([]*Binding, error) {
	if len(data) > bindingLimit {
		return nil, Faults{{file, 1, 1, fmt.Sprintf("the file is larger than %d bytes", bindingLimit)}}
	}
	var docs []yaml.Node
	if err := yaml.Load(data, &docs, yaml.WithAllDocuments()); err != nil {
		return nil, yamlFaults(file, err)
	}
	var out []*Binding
	var faults Faults
	for i := range docs {
		p := &bindingParser{file: file, lookup: env, values: map[string]string{}}
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

func yamlFaults(file string, err error) Faults {
	var one *yaml.LoadError
	if errors.As(err, &one) {
		return Faults{{file, max(1, one.Mark.Line), max(1, one.Mark.Column), one.Message}}
	}
	return Faults{{file, 1, 1, err.Error()}}
}

// bindingParser reads one document and collects its faults.
type bindingParser struct {
	file   string
	lookup func(string) (string, bool)
	// values are the environment variables that the document names.
	values map[string]string
	faults Faults
}

// field reads one known member of a mapping.
type field func(*yaml.Node)

func (p *bindingParser) fault(n *yaml.Node, format string, args ...any) {
	p.faults = append(p.faults, Fault{p.file, max(1, n.Line), max(1, n.Column), fmt.Sprintf(format, args...)})
}

func (p *bindingParser) document(n *yaml.Node) *Binding {
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
		File: p.file, concurrency: DefaultHTTPConcurrency, retry: DefaultRetry, calls: map[events.Operation]*call{},
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

// What the expressions of a binding see.
var (
	baseVars = []string{"env"}
	doVars   = []string{"input", "task", "step", "attempt", "env"}
	undoVars = append(slices.Clone(doVars), "output")
)

// finish adds what is derived from the whole document.
func (p *bindingParser) finish(n *yaml.Node, b *Binding) {
	env, err := events.Marshal(p.values)
	if err != nil {
		p.fault(n, "an environment variable cannot be used: %v", err)
		return
	}
	b.env = env
	b.redact = redactor(p.values)
	b.client = newClient(b.concurrency)
	if b.base != nil {
		b.root = (&url.URL{Scheme: b.base.Scheme, Host: b.base.Host}).String()
	}
}

func (p *bindingParser) http(n *yaml.Node, b *Binding) {
	seen := p.mapping(n, map[string]field{
		"base":        func(n *yaml.Node) { b.base = p.base(n) },
		"concurrency": func(n *yaml.Node) { p.integer(n, &b.concurrency, maxConcurrency) },
		"breaker":     func(n *yaml.Node) { p.breaker(n, &b.breaker) },
		"timeout":     func(n *yaml.Node) { p.duration(n, &b.timeout) },
		"headers":     func(n *yaml.Node) { b.headers = p.headers(n, doVars) },
		"retry":       func(n *yaml.Node) { p.retry(n, &b.retry) },
		"limit": func(n *yaml.Node) {
			if b.fixed = n.Value == "fixed"; n.Kind != yaml.ScalarNode || !b.fixed && n.Value != "adaptive" {
				p.fault(n, "limit is adaptive, which is the default, or fixed")
			}
		},
	})
	p.require(n, seen, "base")
}

func (p *bindingParser) breaker(n *yaml.Node, b *Breaker) {
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

func (p *bindingParser) retry(n *yaml.Node, r *Retry) {
	p.mapping(n, map[string]field{
		"tries":   func(n *yaml.Node) { p.integer(n, &r.Tries, maxTries) },
		"backoff": func(n *yaml.Node) { p.duration(n, &r.Backoff) },
		"max":     func(n *yaml.Node) { p.duration(n, &r.BackoffMax) },
	})
}

var methods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions,
}

func (p *bindingParser) call(n *yaml.Node, vars []string) *call {
	c := &call{}
	seen := p.mapping(n, map[string]field{
		"method": func(n *yaml.Node) {
			if p.text(n, &c.method) && !slices.Contains(methods, c.method) {
				p.fault(n, "unknown method %q%s", c.method, nearest(c.method, methods))
			}
		},
		"path":    func(n *yaml.Node) { c.path = p.path(n, vars) },
		"headers": func(n *yaml.Node) { c.headers = p.headers(n, vars) },
		"body":    func(n *yaml.Node) { c.body = p.body(n, vars) },
	})
	p.require(n, seen, "method", "path")
	return c
}

func (p *bindingParser) base(n *yaml.Node) *url.URL {
	t := p.template(n, nil, baseVars)
	if t == nil || len(p.faults) > 0 {
		return nil
	}
	// Nothing of the value is shown: it may hold a password.
	s, err := t.Eval(exprlang.NewScope(map[string]rawMessage{"env": mustMarshal(p.values)}))
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

func (p *bindingParser) path(n *yaml.Node, vars []string) *exprlang.Text {
	if n.Kind == yaml.ScalarNode && !strings.HasPrefix(n.Value, "/") {
		p.fault(n, "path must begin with a slash, such as /items/${ input.id }")
		return nil
	}
	return p.template(n, escapeValue, vars)
}

// reserved are the headers that the agent sends itself, or that HTTP gives a meaning for one connection.
var reserved = []string{
	headerKey, headerTask, headerAttempt, headerRun, headerStep, headerTrace,
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Trailer", "Te",
}

func (p *bindingParser) headers(n *yaml.Node, vars []string) []headerTemplate {
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
			p.fault(k, "header %s stands here twice", name)
		default:
			if t := p.template(v, nil, vars); t != nil {
				out = append(out, headerTemplate{name, t})
			}
		}
	}
	return out
}

func (p *bindingParser) body(n *yaml.Node, vars []string) *exprlang.Template {
	places := map[string]*yaml.Node{}
	raw := p.json(n, "", places)
	if raw == nil || string(raw) == "null" {
		return nil
	}
	// Each text by itself first, since one that does not compile would hide the variables that others name.
	for _, place := range places {
		if place.Kind == yaml.ScalarNode && place.ShortTag() == "!!str" {
			p.template(place, nil, vars)
		}
	}
	if len(p.faults) > 0 {
		return nil
	}
	t, err := exprlang.Compile(raw, vars...)
	if err != nil {
		p.expressionFaults(n, err, places)
	}
	return t
}

// template compiles a string with expressions.
func (p *bindingParser) template(n *yaml.Node, escape func(string) string, vars []string) *exprlang.Text {
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
func (p *bindingParser) reference(n *yaml.Node, r exprlang.Reference) {
	if r.Path[0] != "env" {
		return
	}
	if len(r.Path) < 2 {
		p.fault(inside(n, r.Offset), "name one variable of the environment, as in env.NAME")
		return
	}
	v, ok := p.lookup(r.Path[1])
	if !ok {
		p.fault(inside(n, r.Offset), "the environment has no variable %s", r.Path[1])
		return
	}
	p.values[r.Path[1]] = v
}

func (p *bindingParser) expressionFaults(n *yaml.Node, err error, places map[string]*yaml.Node) {
	var all exprlang.Errors
	if !errors.As(err, &all) {
		p.fault(n, "%v", err)
		return
	}
	for _, e := range all {
		p.fault(inside(at(places, e.Pointer, n), e.Offset), "%s", e.Message)
	}
}

func (p *bindingParser) name(n *yaml.Node, into *string) {
	if p.text(n, into) && !agentName.MatchString(*into) {
		p.fault(n, "%q is not a name: a lower-case letter and up to 63 of a-z, 0-9, _ and -", *into)
	}
}

func (p *bindingParser) integer(n *yaml.Node, into *int, most int) {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < 1 || v > most {
		p.fault(n, "must be a whole number from 1 to %d", most)
		return
	}
	*into = v
}

func (p *bindingParser) duration(n *yaml.Node, into *time.Duration) {
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
