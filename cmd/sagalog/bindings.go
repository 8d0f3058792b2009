package main

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/sagalog/sagalog/agent"
)

// bindings are the agents that a process runs: HTTP services, bound by files.
type bindings struct {
	registry *agent.Registry
	bound    []*agent.Binding
}

func newBindings() *bindings { return &bindings{registry: agent.NewRegistry()} }

// folder binds the agents of --agents; nothing where the flag was not given.
func (b *bindings) folder(dir string) error {
	if dir == "" {
		return nil
	}
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("--agents: %w", err)
	}
	return b.files(os.DirFS(dir), os.LookupEnv)
}

func (b *bindings) files(files fs.FS, env func(string) (string, bool)) error {
	all, err := agent.LoadBindings(files, env)
	if err != nil {
		return err
	}
	for _, one := range all {
		one.Register(b.registry)
	}
	b.bound = append(b.bound, all...)
	return b.registry.Err()
}

// names are those of the agents.
func (b *bindings) names() []string { return b.registry.Agents() }

// close is called after the agents have ended.
func (b *bindings) close() {
	for _, one := range b.bound {
		one.Close()
	}
}
