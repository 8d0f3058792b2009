package execagent

import (
	"encoding/json"
	"io/fs"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/agentfile"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// Binding binds an agent to a command without code. It belongs to the agent's process and not to a workflow, so that no workflow
// and no log can name a program.
type Binding struct {
	// Agent is the agent's name.
	Agent string
	// File is the file that the binding was read from.
	File string

	concurrency int
	// commands holds the commands by operation, whose agent is left out.
	commands map[events.Call]*command
	env      json.RawMessage
	secrets  *agentfile.Secrets
}

// command is the command of an operation.
type command struct {
	// program is its path, or a name that is looked up in path.
	program string
	args    []argument
	// env is its whole environment besides the variables of the attempt, and path the PATH in it.
	env  []string
	path string
	dir  string
	// silent says that it gets nothing on standard input.
	silent bool
	stdout string
	grace  time.Duration
	codes  exitCodes
}

// argument is an argument after the program.
type argument struct {
	text *exprlang.Text
	// option says that it may begin with a dash although its text begins with an expression.
	option bool
}

const (
	// DefaultConcurrency is how many commands of a binding run at once if it does not set a concurrency. A command uses this
	// machine's own processors and memory, and not another's as a call does.
	DefaultConcurrency = 8
	// maxConcurrency bounds the processes of a binding. Each command has a guard of some 20 MB.
	maxConcurrency = 1000
	// DefaultGrace is how long a command may take to end after SIGTERM if its binding does not say. It is enough to remove files
	// and to close connections.
	DefaultGrace = 2 * time.Second
	// MaxGrace bounds the grace of a binding. It is a part of the attempt's time, so a longer one would leave little of it.
	MaxGrace = time.Minute
)

// Kind is how the documents of agent files bind agents to commands, for a program that reads files of several kinds.
func Kind() agentfile.Kind { return agentfile.Kind{Key: "exec", Bind: bind, Schema: schema} }

// Load reads all *.yaml and *.yml files at the root of dir (such as os.DirFS of a directory). Each file holds one binding
// or several, as YAML documents. env looks up environment variables (os.LookupEnv); every variable that a binding names
// must be set. The error lists all faults with their places, unless a file cannot be read.
func Load(dir fs.FS, env func(string) (string, bool)) ([]*Binding, error) {
	return own(agentfile.Load(dir, env, Kind()))
}

// Parse reads the bindings of one file. The error lists all faults with their places.
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
//
// As many commands run at once as the concurrency says, also while they are slow: unlike calls, commands of one step differ in how
// long they take.
func (b *Binding) Register(r *agent.Registry, options ...agent.Option) {
	own := []agent.Option{agent.Concurrency(b.concurrency), agent.FixedLimit()}
	agentfile.Register(r, b.Agent, agentfile.Functions(b.commands, b.try), append(own, options...)...)
}

// Close does nothing: when the runner has ended, no command runs.
func (b *Binding) Close() {}
