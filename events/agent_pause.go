package events

import (
	"fmt"
	"regexp"
)

var agentName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// CheckAgent returns an error if name cannot name an agent.
func CheckAgent(name string) error {
	if !agentName.MatchString(name) {
		return fmt.Errorf("%q is not a valid name: use a lower-case letter, followed by up to 63 of a-z, 0-9, _ and -", name)
	}
	return nil
}

// AgentPause is the value of a record of the definitions with the type TypeAgentPause: an operator holds an agent, or lets it go on. While an
// agent is paused, no attempt of any task starts at it, neither of a step nor of an undo. Attempts that run go on.
type AgentPause struct {
	Agent  string `json:"agent"`
	Paused bool   `json:"paused"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// Key is the key of its record. The latest record of a key counts.
func (a *AgentPause) Key() string { return "agent/" + a.Agent }
