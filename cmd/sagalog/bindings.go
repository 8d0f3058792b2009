package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/execagent"
	"github.com/sagalog/sagalog/agent/httpagent"
	"github.com/sagalog/sagalog/internal/agentfile"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/scheduler"
)

// bindings are the agents that a process runs: HTTP services and commands, bound by files.
type bindings struct {
	registry *agent.Registry
	bound    []agentfile.Binding
	// reports is nil if this process has no key of callbacks.
	reports *reports
	// accepts is an agent whose service may report later; "" if none has one.
	accepts string
}

// agentKinds are what the files of agents bind.
func agentKinds() []agentfile.Kind { return []agentfile.Kind{httpagent.Kind(), execagent.Kind()} }

// loadAgents validates a file of agents without starting them.
func loadAgents(file string, data []byte) (names []string, faults []scheduler.Fault) {
	all, err := agentfile.Parse(file, data, os.LookupEnv, agentKinds()...)
	var found agentfile.Faults
	if errors.As(err, &found) {
		for _, f := range found {
			faults = append(faults, scheduler.Fault{File: f.File, Line: f.Line, Column: f.Column, Message: f.Message, Warning: f.Unset})
		}
	}
	for _, one := range all {
		names = append(names, one.Name())
		one.Close()
	}
	return names, faults
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
	if faults, ok := errors.AsType[agentfile.Faults](err); ok {
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
	all, err := agentfile.Load(files, env, agentKinds()...)
	if err != nil {
		return err
	}
	var faults agentfile.Faults
	for _, one := range all {
		if fault, ok := b.callback(one); !ok {
			faults = append(faults, fault)
			continue
		}
		one.Register(b.registry)
	}
	if len(faults) > 0 {
		return faults
	}
	b.bound = append(b.bound, all...)
	return b.registry.Err()
}

// callback gives a binding whose service may report later what it needs for that; ok is false if this process has no key.
func (b *bindings) callback(one agentfile.Binding) (fault agentfile.Fault, ok bool) {
	service, calls := one.(*httpagent.Binding)
	if !calls {
		return fault, true
	}
	fault, accepts := service.Accepting()
	if !accepts {
		return fault, true
	}
	if b.reports == nil {
		fault.Message += ": start this process and those with the role api with the same --callback-key-file"
		return fault, false
	}
	b.accepts = service.Agent
	service.SetCallback(b.reports.callback)
	return fault, true
}

// names returns the names of the agents.
func (b *bindings) names() []string { return b.registry.Agents() }

// close is called after the agents have ended.
func (b *bindings) close() {
	for _, one := range b.bound {
		one.Close()
	}
}
