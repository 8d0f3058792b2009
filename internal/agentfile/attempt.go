package agentfile

import (
	"encoding/json"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// SetVariables sets in a scope the variables that expressions about an attempt see. env is that of Environment.
func SetVariables(s *exprlang.Scope, w *events.Work, env json.RawMessage) {
	s.Set("input", s.Raw(w.Input))
	s.Set("output", s.Raw(w.Output))
	s.Set("task", s.Raw(mustMarshal(task{w.Task, w.Run, w.Workflow, w.Version})))
	s.Set("step", s.Text(w.Step))
	s.Set("attempt", s.Int(w.Attempt))
	s.Set("progress", s.Raw(w.Progress))
	s.Set("env", s.Raw(env))
}

// task is the variable task of expressions.
type task struct {
	ID       string `json:"id"`
	Run      int    `json:"run"`
	Workflow string `json:"workflow"`
	Version  int    `json:"version"`
}

// Refusal is a permanent failure before an attempt did anything.
func Refusal(code string, err error) *agent.Failure {
	return &agent.Failure{Class: events.ClassPermanent, Effect: events.EffectNone, Code: code, Err: err}
}
