package events

import (
	"slices"
	"strings"
)

// Call is what an attempt asks of an agent: to do or to undo one of its operations.
type Call struct {
	Agent string
	// Function is the name of the operation, which a definition gives as operation: on the wire that word says do or undo. It is empty
	// for a step that names none, which is the usual case of an agent with only one.
	Function  string
	Operation Operation
}

// MaxFunctions bounds the operations with a name that an instance offers of one agent. It keeps a heartbeat far below the size of a record.
const MaxFunctions = 1_000

// Verb says what is asked, without the agent: "do", or "do capture" if the operation has a name.
func (c Call) Verb() string {
	if c.Function == "" {
		return string(c.Operation)
	}
	return string(c.Operation) + " " + c.Function
}

// String returns text for people, such as "undo of agent bank, operation capture".
func (c Call) String() string {
	text := string(c.Operation) + " of agent " + c.Agent
	if c.Function != "" {
		text += ", operation " + c.Function
	}
	return text
}

// Compare orders calls by agent, with the undos of an agent first, since undos free what others wait for.
func (c Call) Compare(o Call) int {
	switch {
	case c.Agent != o.Agent:
		return strings.Compare(c.Agent, o.Agent)
	case c.Operation != o.Operation && c.Operation == Undo:
		return -1
	case c.Operation != o.Operation:
		return 1
	}
	return strings.Compare(c.Function, o.Function)
}

// Call returns what the attempt asks of its agent.
func (r *Ready) Call() Call { return Call{r.Agent, r.Function, r.Operation} }

// Call returns what the step waits for.
func (k *ReadyKey) Call() Call { return Call{k.Agent, k.Function, k.Operation} }

// Call returns what steps wait for.
func (m *Missing) Call() Call { return Call{m.Agent, m.Function, m.Operation} }

// Call returns what the attempt asks of its agent.
func (b *StepStarted) Call() Call { return Call{b.Agent, b.Function, Do} }

// Call returns what the attempt asks of its agent.
func (b *CompensationStarted) Call() Call { return Call{b.Agent, b.Function, Undo} }

// Call returns what the attempt asks of its agent.
func (w *Work) Call() Call { return Call{w.Agent, w.Function, w.Operation} }

// Call returns what the latest attempt to do the step, or to undo it, asks of its agent.
func (s *Step) Call(op Operation) Call {
	if op == Undo && s.Undo != nil {
		return Call{s.Undo.Agent, s.Undo.Function, op}
	}
	return Call{s.Agent, s.Function, op}
}

// Offers says whether an instance offers what a call asks of its agent. An instance that lists no operations of an agent offers those without
// a name. None of more than MaxFunctions counts.
func (p *Presence) Offers(c Call) bool {
	named := p.Functions[c.Agent]
	if c.Function != "" {
		return len(named) <= MaxFunctions && slices.Contains(named[c.Function], c.Operation)
	}
	list, says := p.Operations[c.Agent]
	return !says && len(named) == 0 || slices.Contains(list, c.Operation)
}

// Takes says whether a live instance offers what a call asks, and accepts work of its agent. One whose breaker is open accepts an attempt that
// tests its service.
func (p *Presence) Takes(c Call) bool {
	return p.Kind == PresenceAgent && (p.Capacity[c.Agent] > 0 || p.Health[c.Agent] == Unhealthy) && p.Offers(c)
}

// Queue names the queue in which a store keeps what waits for an operation of an agent: the agent or, for an operation with a name,
// agent/operation. A name holds no slash.
func (k *ReadyKey) Queue() string {
	if k.Function == "" {
		return k.Agent
	}
	return k.Agent + "/" + k.Function
}

// Queue is the queue of ReadyKey.Queue.
func (c Call) Queue() string {
	k := ReadyKey{Agent: c.Agent, Function: c.Function}
	return k.Queue()
}

// SplitQueue returns the agent and the operation of a queue.
func SplitQueue(queue string) (agent, function string) {
	agent, function, _ = strings.Cut(queue, "/")
	return agent, function
}
