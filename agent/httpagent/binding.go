package httpagent

import (
	"crypto/tls"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/agentfile"
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
	direct bool
	// calls holds the requests by operation, whose agent is left out.
	calls   map[events.Call]*call
	env     json.RawMessage
	secrets *agentfile.Secrets
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

// Fault is one mistake in a binding file. It is an error, and has the fields
//
//	File    string
//	Line    int    // from 1
//	Column  int    // from 1
//	Message string
//	Unset   bool   // the environment has no variable of a name
type Fault = agentfile.Fault

// Faults are all mistakes that were found, ordered by file and line: a []Fault that is an error, for errors.As.
type Faults = agentfile.Faults

// Kind is how the documents of agent files bind agents to HTTP services. It is for the program sagalog, which reads files
// of several kinds; its type is internal, and other programs call Load or Parse.
func Kind() agentfile.Kind { return agentfile.Kind{Key: "http", Bind: bind, Schema: schema} }

// Load reads all *.yaml and *.yml files at the root of dir (such as os.DirFS of a directory). Each file holds one binding
// or several, as YAML documents. env looks up environment variables (os.LookupEnv); every variable that a binding names
// must be set. The error is of the type Faults, unless a file cannot be read.
func Load(dir fs.FS, env func(string) (string, bool)) ([]*Binding, error) {
	return own(agentfile.Load(dir, env, Kind()))
}

// Parse reads the bindings of one file. The error is of the type Faults.
func Parse(file string, data []byte, env func(string) (string, bool)) ([]*Binding, error) {
	return own(agentfile.Parse(file, data, env, Kind()))
}

func own(all []agentfile.Binding, err error) ([]*Binding, error) {
	var out []*Binding
	for _, b := range all {
		out = append(out, b.(*Binding))
	}
	return out, err
}

// Name is the agent's name.
func (b *Binding) Name() string { return b.Agent }

// Register adds the bound agent to a registry. Extra options come after those of the file.
func (b *Binding) Register(r *agent.Registry, options ...agent.Option) {
	own := []agent.Option{agent.Concurrency(b.concurrency), agent.WithRetry(b.retry), agent.WithBreaker(b.breaker)}
	if fault, accepting := b.Accepting(); accepting && b.callback == nil {
		own = append(own, agent.Invalid(fault))
	}
	if b.fixed {
		own = append(own, agent.FixedLimit())
	}
	agentfile.Register(r, b.Agent, agentfile.Functions(b.calls, b.try), append(own, options...)...)
}

// Close closes the idle connections. It is called after the runner has ended.
func (b *Binding) Close() {
	b.client.CloseIdleConnections()
	b.single.CloseIdleConnections()
}
