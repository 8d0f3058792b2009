package httpagent

import (
	"crypto/tls"
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

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
	"github.com/sagalog/sagalog/internal/yamltree"
)

// Binding binds an agent to an HTTP service without code. It belongs to the agent's process and not to a workflow, so that
// no workflow and no log contains a URL or a secret.
type Binding struct {
	// Agent is the agent's name.
	Agent string
	// File is the file that the binding was read from.
	File string

	base *url.URL
	// root is the base URL without path and user info.
	root        string
	headers     []headerTemplate
	concurrency int
	breaker     agent.Breaker
	retry       agent.Retry
	// timeout bounds one try; zero leaves it to the complete-by time.
	timeout time.Duration
	// fixed switches the adaptive limit off: see agent.FixedLimit.
	fixed bool
	// tokens is nil without OAuth 2.
	tokens *tokens
	// tls is nil for the system's certificates and no client certificate.
	tls *tls.Config
	// direct says that no proxy answers for the service.
	direct  bool
	calls   map[events.Operation]*call
	env     json.RawMessage
	secrets *secrets
	client  *http.Client
	// single makes the calls that the service may accept.
	single *http.Client
	// callback is nil if the service cannot report later.
	callback Callback
}

// call is the request that an operation makes.
type call struct {
	method  string
	path    *exprlang.Text
	headers []headerTemplate
	// body is nil for a request without one.
	body *exprlang.Template
	// query holds the parameters that are added to the path; nil without any.
	query *exprlang.Template
	// success holds statuses that complete besides 2xx, and retryOn those that are retryable, 2xx or not.
	success, retryOn []int
	// accepted holds statuses after which the service reports the outcome by the callback, and acceptedAt is their place in the file.
	accepted   []int
	acceptedAt yamltree.Place
	// output makes the output of an answer; nil takes the body.
	output *exprlang.Template
	// gone says that an undo that finds nothing has succeeded, whatever the do reported.
	gone bool
}

type headerTemplate struct {
	name  string
	value *exprlang.Text
}

// DefaultConcurrency is how many calls a binding makes at once if it does not set a concurrency. It is higher than
// agent.DefaultConcurrency because a binding's calls only wait for the network, and low enough for a small single-process
// service.
const DefaultConcurrency = 64

// fileLimit bounds the size of a binding file. A hand-written one has a few kilobytes.
const fileLimit = 1 << 20

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

// Faults are all mistakes that were found, ordered by file and line.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, x := range f {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// Load reads all *.yaml and *.yml files at the root of dir (such as os.DirFS of a directory). Each file holds one binding
// or several, as YAML documents. env looks up environment variables (os.LookupEnv); every variable that a binding names
// must be set. The error is of the type Faults, unless a file cannot be read.
func Load(dir fs.FS, env func(string) (string, bool)) ([]*Binding, error) {
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
		some, err := Parse(e.Name(), data, env)
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
func (b *Binding) Register(r *agent.Registry, options ...agent.Option) {
	own := []agent.Option{agent.Concurrency(b.concurrency), agent.WithRetry(b.retry), agent.WithBreaker(b.breaker)}
	if fault, accepting := b.Accepting(); accepting && b.callback == nil {
		own = append(own, agent.Invalid(fault))
	}
	if b.fixed {
		own = append(own, agent.FixedLimit())
	}
	if undo := b.calls[events.Undo]; undo != nil {
		own = append(own, agent.WithRawUndo(b.try(undo)))
	}
	agent.HandleRaw(r, b.Agent, b.try(b.calls[events.Do]), append(own, options...)...)
}

// Close closes the idle connections. It is called after the runner has ended.
func (b *Binding) Close() {
	b.client.CloseIdleConnections()
	b.single.CloseIdleConnections()
}
