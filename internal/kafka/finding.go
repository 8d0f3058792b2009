package kafka

import (
	"fmt"
	"strings"
)

// Status says how grave a finding is.
type Status string

// The grades of a finding.
const (
	// StatusOK is as it must be.
	StatusOK Status = "ok"
	// StatusWarn works, and somebody should know.
	StatusWarn Status = "warn"
	// StatusFail keeps a process from its work.
	StatusFail Status = "fail"
)

// The checks of Diagnose, in their order.
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

// Finding is what one look told. It holds no secret.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	// What is a sentence without its full stop.
	What string `json:"message"`
	// Remedy is what an operator can do, most often a flag or a command. Empty where nothing is wrong.
	Remedy string `json:"remedy,omitempty"`

	// passing marks what may pass without anybody's doing: a broker that is starting.
	passing bool
	// later marks what stops no start, since it may pass while the process runs.
	later bool
}

func (f Finding) String() string {
	if f.Remedy == "" {
		return f.What
	}
	return f.What + ". Remedy: " + f.Remedy
}

// PreflightError is returned by Preflight with all that keeps a process from its work.
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
