package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// Binding binds an agent to an HTTP service without code. It is a file of the agent's process, apart from workflows,
// so that no workflow and no log knows a URL or a secret.
type Binding struct {
	// Agent is the agent's name.
	Agent string
	// File is where the binding was read.
	File string

	base *url.URL
	// root is the base without path and user.
	root        string
	headers     []headerTemplate
	concurrency int
	breaker     Breaker
	retry       Retry
	// timeout bounds one try; zero leaves it to the complete-by time.
	timeout time.Duration
	// fixed says that the limit is not adapted: see FixedLimit.
	fixed  bool
	calls  map[events.Operation]*call
	env    json.RawMessage
	redact *strings.Replacer
	client *http.Client
}

// call is the request that an operation makes.
type call struct {
	method  string
	path    *exprlang.Text
	headers []headerTemplate
	// body is nil for a request without one.
	body *exprlang.Template
}

type headerTemplate struct {
	name  string
	value *exprlang.Text
}

// DefaultHTTPConcurrency is that of a binding without one. Attempts of a binding only wait, so more than
// DefaultConcurrency; a service of one small process still bears it.
const DefaultHTTPConcurrency = 64

// bindingLimit bounds a binding file; a hand-written one has kilobytes.
const bindingLimit = 1 << 20

// Fault is one mistake in a binding file.
type Fault struct {
	File    string
	Line    int
	Column  int
	Message string
}

func (f Fault) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
}

// Faults is every mistake that was found, in the order of files and lines.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, x := range f {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// LoadBindings reads all *.yaml and *.yml files at the root of dir (os.DirFS of a directory). Each holds one binding
// or several, as documents. env looks up environment variables (os.LookupEnv); every one that a binding names must
// be there. The error is of the type Faults, unless a file cannot be read.
func LoadBindings(dir fs.FS, env func(string) (string, bool)) ([]*Binding, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, fmt.Errorf("read bindings: %w", err)
	}
	var all []*Binding
	var faults Faults
	for _, e := range entries {
		if ext := path.Ext(e.Name()); e.IsDir() || strings.HasPrefix(e.Name(), ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		data, err := fs.ReadFile(dir, e.Name())
		if err != nil {
			return nil, fmt.Errorf("read binding: %w", err)
		}
		some, err := ParseBindings(e.Name(), data, env)
		var f Faults
		if errors.As(err, &f) {
			faults = append(faults, f...)
		}
		for _, b := range some {
			if i := slices.IndexFunc(all, func(o *Binding) bool { return o.Agent == b.Agent }); i >= 0 {
				faults = append(faults, Fault{b.File, 1, 1, fmt.Sprintf("agent %q is bound in %s already", b.Agent, all[i].File)})
			}
			all = append(all, b)
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return all, nil
}

// Register adds the bound agent to a registry. Extra options come after those of the file.
func (b *Binding) Register(r *Registry, options ...Option) {
	ops := make(map[events.Operation]operation, len(b.calls))
	for name, c := range b.calls {
		ops[name] = b.operation(c)
	}
	own := []Option{Concurrency(b.concurrency), WithRetry(b.retry), WithBreaker(b.breaker)}
	if b.fixed {
		own = append(own, FixedLimit())
	}
	r.add(b.Agent, ops, append(own, options...))
}

// Close closes the idle connections. It is called after the runner has ended.
func (b *Binding) Close() { b.client.CloseIdleConnections() }
