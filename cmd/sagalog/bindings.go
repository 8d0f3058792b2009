package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/httpagent"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
)

// bindings are the agents that a process runs: HTTP services, bound by files.
type bindings struct {
	registry *agent.Registry
	bound    []*httpagent.Binding
	// reports is nil if this process has no key of callbacks.
	reports *reports
	// accepts is an agent whose service may report later; "" if none has one.
	accepts string
}

func newBindings() *bindings { return &bindings{registry: agent.NewRegistry()} }

// folder binds the agents of --agents, if the flag was given.
func (b *bindings) folder(dir string) error {
	if dir == "" {
		return nil
	}
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("--agents: %w", err)
	}
	err := b.files(beneath(dir), os.LookupEnv)
	if faults, ok := errors.AsType[httpagent.Faults](err); ok {
		placed := slices.Clone(faults)
		for i := range placed {
			placed[i].File = filepath.Join(dir, placed[i].File)
		}
		return placed
	}
	return err
}

// agentsFault is the finding of doctor and serve about files of --agents that cannot be bound.
func agentsFault(err error) doctor.Finding {
	return doctor.Finding{Check: checkAgents, Status: doctor.StatusFail, What: err.Error(), Remedy: "correct the files of --agents"}
}

func (b *bindings) files(files fs.FS, env func(string) (string, bool)) error {
	all, err := httpagent.Load(files, env)
	if err != nil {
		return err
	}
	var faults httpagent.Faults
	for _, one := range all {
		if fault, accepts := one.Accepting(); accepts {
			if b.reports == nil {
				fault.Message += ": start this process and those with the role api with the same --callback-key-file"
				faults = append(faults, fault)
				continue
			}
			b.accepts = one.Agent
			one.SetCallback(b.reports.callback)
		}
		one.Register(b.registry)
	}
	if len(faults) > 0 {
		return faults
	}
	b.bound = append(b.bound, all...)
	return b.registry.Err()
}

// names returns the names of the agents.
func (b *bindings) names() []string { return b.registry.Agents() }

// close is called after the agents have ended.
func (b *bindings) close() {
	for _, one := range b.bound {
		one.Close()
	}
}
