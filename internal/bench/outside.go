package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/internal/kafka"
)

// AgentsConfig is a process with the agents of a run. The command starts it, or a person does for --agents running.
type AgentsConfig struct {
	Cluster     kafka.ClusterConfig
	Namespace   string
	Instance    string
	Concurrency int
	Latency     Latency
	// Prefix tells the tasks of the run; empty takes any order of any run, and counts nothing.
	Prefix string
	// Calls is the file for the counts; empty for none.
	Calls string
	// Orders ends the process when it ends, and slows the backends by the line "slow"; nil is for a person, who has Ctrl-C.
	Orders io.Reader
	Log    *slog.Logger
}

// Agents runs the agents until ctx or its orders end.
func Agents(ctx context.Context, c AgentsConfig) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cluster, err := kafka.Connect(c.Cluster)
	if err != nil {
		return err
	}
	defer cluster.Close()
	m := &mock{names: names{[]byte(c.Prefix)}, backends: backends{latency: c.Latency}, anyTask: c.Prefix == ""}
	attached, err := agent.Attach(ctx, cluster, m.registry(c.Concurrency), agent.Config{Namespace: c.Namespace, Instance: c.Instance, Log: c.Log})
	if err != nil {
		return err
	}
	if c.Orders != nil {
		// The read ends with the process that gives the orders, whatever becomes of it. It is not waited for: nothing can
		// interrupt a read of a pipe, and this process ends next.
		go func() {
			defer stop()
			for lines := bufio.NewScanner(c.Orders); lines.Scan(); {
				if lines.Text() == "slow" {
					m.backends.slow.Store(true)
				}
			}
		}()
	}
	if err := attached.Run(ctx); err != nil {
		return err
	}
	if c.Calls == "" {
		return nil
	}
	if err := m.calls.write(c.Calls); err != nil {
		return fmt.Errorf("write the counted calls: %w", err)
	}
	return nil
}
