package doctor

import (
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// Status is the severity of a finding.
type Status string

// The values of Status.
const (
	// StatusOK means that nothing is wrong.
	StatusOK Status = "ok"
	// StatusWarn means that the process can work, but somebody should know.
	StatusWarn Status = "warn"
	// StatusFail means that the process cannot work.
	StatusFail Status = "fail"
)

// The checks of Diagnose, in order.
const (
	CheckBrokers     = "brokers"
	CheckVersions    = "versions"
	CheckSecurity    = "security"
	CheckPermissions = "permissions"
	CheckGroups      = "groups"
	CheckNamespace   = "namespace"
	CheckTopics      = "topics"
	CheckReplicas    = "replicas"
)

// Finding is one result. It holds no secret.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	// What states the fault, as a sentence without a full stop.
	What string `json:"message"`
	// Remedy is what an operator can do, usually a flag or a command. Empty if nothing is wrong.
	Remedy string `json:"remedy,omitempty"`

	// passing says that the problem may pass without help: a broker may be starting.
	passing bool
	// later says that the problem does not prevent a start, because it may pass while the process runs.
	later bool
	// audited says that a node reports the problem itself when it audits its topics.
	audited bool
}

func (f Finding) String() string {
	if f.Remedy == "" {
		return f.What
	}
	return events.Sentence(f.What) + " Remedy: " + f.Remedy
}

// PreflightError is returned by Preflight, with everything that prevents the process from working.
type PreflightError struct{ Findings []Finding }

func (e *PreflightError) Error() string {
	if len(e.Findings) == 1 {
		return e.Findings[0].String()
	}
	lines := []string{fmt.Sprintf("%d things must be changed first:", len(e.Findings))}
	for _, f := range e.Findings {
		lines = append(lines, "  - "+strings.ReplaceAll(f.String(), "\n", "\n    "))
	}
	return strings.Join(lines, "\n")
}

// TopicProblem is one setting of a topic that is wrong.
type TopicProblem struct {
	Topic, Setting, Value, Want string
	// Remedy is what an operator can do, usually a command.
	Remedy string
}

func (p TopicProblem) String() string { return events.Sentence(p.what()) + " Remedy: " + p.Remedy }

func (p TopicProblem) what() string {
	return fmt.Sprintf("topic %s: %s is %s, must be %s", p.Topic, p.Setting, p.Value, p.Want)
}

// AuditError is returned by Audit when settings could lose facts, or when a partition count has changed.
type AuditError struct{ Problems []TopicProblem }

func (e *AuditError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
