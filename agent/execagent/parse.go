package execagent

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/agentfile"
)

// The variables that are visible to the arguments of a command.
var (
	doVars   = []string{"input", "task", "step", "attempt", "progress", "env"}
	undoVars = append(slices.Clone(doVars), "output")
)

// The values of stdin and stdout.
const (
	formatJSON  = "json"
	formatText  = "text"
	formatLines = "lines"
	formatNone  = "none"
)

var outputFormats = []string{formatJSON, formatText, formatLines}

// ordinary are the variables that are never secret: their values occur in ordinary output, such as the paths of files.
var ordinary = []string{"PATH", "HOME", "PWD", "TMPDIR", "SHELL", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TERM"}

// parser reads one document.
type parser struct{ *agentfile.Reader }

type field = agentfile.Field

func bind(r *agentfile.Reader, n *yaml.Node) agentfile.Binding {
	p := &parser{r}
	b := &Binding{File: r.File(), concurrency: DefaultConcurrency, commands: map[events.Call]*command{}}
	var exec, undo, operations *yaml.Node
	seen := p.Mapping(n, map[string]field{
		"agent":                 func(n *yaml.Node) { p.Agent(n, &b.Agent) },
		"exec":                  func(n *yaml.Node) { exec = n },
		"undo":                  func(n *yaml.Node) { undo = n },
		agentfile.KeyOperations: func(n *yaml.Node) { operations = n },
	})
	p.Require(n, seen, "agent", "exec")
	if exec == nil {
		return b
	}
	if err := supported(); err != nil {
		p.Fault(exec, "%v", err)
	}
	// The other commands take from exec what they do not say themselves, so exec is read first.
	shared, seen := p.command(exec, command{stdout: formatJSON, grace: DefaultGrace, codes: defaultCodes}, doVars, map[string]field{
		"concurrency": func(n *yaml.Node) { p.Integer(n, &b.concurrency, maxConcurrency) },
		"public":      p.Public,
	})
	if operations == nil || undo != nil {
		p.Require(exec, seen, "command")
	}
	if seen["command"] {
		b.commands[events.Call{Operation: events.Do}] = shared
	}
	if undo != nil {
		b.commands[events.Call{Operation: events.Undo}] = p.undo(undo, shared)
	}
	if operations != nil {
		p.Operations(operations, func(name string, n *yaml.Node) { p.operation(n, name, b, shared) })
	}
	p.Reveal(ordinary...)
	b.env, b.secrets = p.Environment(n)
	return b
}

// operation reads the commands of an operation with a name.
func (p *parser) operation(n *yaml.Node, name string, b *Binding, shared *command) {
	var exec, undo *yaml.Node
	seen := p.Mapping(n, map[string]field{
		"exec": func(n *yaml.Node) { exec = n },
		"undo": func(n *yaml.Node) { undo = n },
	})
	p.Require(n, seen, "exec")
	if exec == nil {
		return
	}
	do, seen := p.command(exec, *shared, doVars, nil)
	p.Require(exec, seen, "command")
	b.commands[events.Call{Function: name, Operation: events.Do}] = do
	if undo != nil {
		b.commands[events.Call{Function: name, Operation: events.Undo}] = p.undo(undo, do)
	}
}

// undo reads the command that undoes what the command do does. It takes from that one what it does not say itself.
func (p *parser) undo(n *yaml.Node, do *command) (undo *command) {
	seen := p.Mapping(n, map[string]field{"exec": func(n *yaml.Node) {
		var seen map[string]bool
		undo, seen = p.command(n, *do, undoVars, nil)
		p.Require(n, seen, "command")
	}})
	p.Require(n, seen, "exec")
	return undo
}

// command reads a command over its defaults, and returns the members that it has. more are those that only the shared exec has.
func (p *parser) command(n *yaml.Node, c command, vars []string, more map[string]field) (*command, map[string]bool) {
	undo := slices.Contains(vars, "output")
	var list *yaml.Node
	known := map[string]field{
		"command": func(n *yaml.Node) { list = n },
		"env":     func(n *yaml.Node) { p.env(n, &c) },
		"dir":     func(n *yaml.Node) { p.dir(n, &c.dir) },
		"stdin":   func(n *yaml.Node) { c.silent = p.choice(n, []string{formatJSON, formatNone}) == formatNone },
		"stdout": func(n *yaml.Node) {
			if undo {
				p.Fault(n, "stdout belongs to the exec of the step: nothing reads the output of an undo")
				return
			}
			c.stdout = p.choice(n, outputFormats)
		},
		"grace": func(n *yaml.Node) {
			if p.Duration(n, &c.grace); c.grace > MaxGrace {
				p.Fault(n, "grace is longer than %v: it is a part of the attempt's time, after which nothing of the command may run", MaxGrace)
			}
		},
		"exit_codes": func(n *yaml.Node) { c.codes = p.codes(n) },
	}
	maps.Copy(known, more)
	seen := p.Mapping(n, known)
	if list != nil {
		p.line(list, &c, vars)
	}
	return &c, seen
}

// line reads the program and its arguments.
func (p *parser) line(n *yaml.Node, c *command, vars []string) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		p.Fault(n, `command is a list of the program and its arguments, such as [/usr/bin/convert, "--", "${ input.file }"]; no shell reads it`)
		return
	}
	c.args = nil
	ended := false // "--" has ended the options
	for i, e := range n.Content {
		if i == 0 {
			p.program(e, c)
			continue
		}
		t := p.Template(e, nil, vars)
		if t == nil {
			continue
		}
		whole := agentfile.Resolve(e).Value
		c.args = append(c.args, argument{t, ended || !strings.HasPrefix(whole, "${")})
		ended = ended || whole == "--"
	}
}

// program reads the program, and looks whether it is there.
func (p *parser) program(n *yaml.Node, c *command) {
	var ok bool
	if c.program, ok = p.Constant(n); !ok {
		return
	}
	if _, err := c.find(); err != nil {
		p.Fault(n, "%v", err)
	}
}

func (p *parser) dir(n *yaml.Node, into *string) {
	s, ok := p.Constant(n)
	if ok && !filepath.IsAbs(s) {
		p.Fault(n, "%q is not an absolute path", s)
		return
	}
	*into = s
}

// env reads the environment of a command: a list of variables that are passed on, or a mapping of names to values.
func (p *parser) env(n *yaml.Node, c *command) {
	c.env, c.path = nil, ""
	switch n.Kind {
	case yaml.SequenceNode:
		for _, e := range n.Content {
			var name string
			if !p.Text(e, &name) {
				continue
			}
			if v, ok := p.Variable(e, 0, name); ok {
				p.set(e, c, name, v)
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if v, ok := p.Secret(n.Content[i+1]); ok {
				p.set(n.Content[i], c, n.Content[i].Value, v)
			}
		}
	default:
		p.Fault(n, `env is a list of variables that are passed on, such as [PATH], or a mapping of names to values, such as {TOKEN: "${ env.TOKEN }"}`)
	}
}

// attemptPrefix begins the names of the variables that the agent sets itself.
const attemptPrefix = "SAGALOG_"

func (p *parser) set(n *yaml.Node, c *command, name, value string) {
	switch {
	case name == "" || strings.ContainsAny(name, "=\x00"):
		p.Fault(n, "%q is not the name of an environment variable", name)
	case strings.HasPrefix(name, attemptPrefix) || name == traceVariable:
		p.Fault(n, "%s is set by the agent", name)
	case strings.Contains(value, "\x00"):
		p.Fault(n, "the value of %s contains a NUL character", name)
	case slices.ContainsFunc(c.env, func(e string) bool { return strings.HasPrefix(e, name+"=") }):
		p.Fault(n, "%s is set twice", name)
	default:
		c.env = append(c.env, name+"="+value)
		if name == "PATH" {
			c.path = value
		}
	}
}

// codes reads what the exit codes mean.
func (p *parser) codes(n *yaml.Node) exitCodes {
	var c exitCodes
	seen := p.Mapping(n, map[string]field{
		"success":   func(n *yaml.Node) { c.success = p.numbers(n) },
		"retry":     func(n *yaml.Node) { c.retry = p.numbers(n) },
		"permanent": func(n *yaml.Node) { c.permanent = p.numbers(n) },
	})
	if seen["retry"] && seen["permanent"] && n.Kind == yaml.MappingNode {
		p.Fault(n, "give retry or permanent, not both: every other code is the opposite")
	}
	if !seen["retry"] && !seen["permanent"] {
		c.retry = defaultCodes.retry
	}
	for _, code := range c.success {
		if slices.Contains(c.retry, code) || slices.Contains(c.permanent, code) {
			p.Fault(n, "code %d is in success and in another list", code)
		}
	}
	return c
}

// numbers reads a list of exit codes.
func (p *parser) numbers(n *yaml.Node) []int {
	if n.Kind != yaml.SequenceNode {
		p.Fault(n, "must be a list of exit codes, such as [75]")
		return nil
	}
	out := []int{}
	for _, e := range n.Content {
		code, err := strconv.Atoi(agentfile.Resolve(e).Value)
		if err != nil || agentfile.Resolve(e).Kind != yaml.ScalarNode || code < 1 || code > 255 {
			p.Fault(e, "must be an exit code from 1 to 255")
			continue
		}
		out = append(out, code)
	}
	return out
}

func (p *parser) choice(n *yaml.Node, values []string) string {
	var s string
	if p.Text(n, &s) && !slices.Contains(values, s) {
		p.Fault(n, "unknown value %q, %s", s, events.Suggest(s, values))
	}
	return s
}
