package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/work"
	"github.com/sagalog/sagalog/internal/pause"
)

// AgentsConfig configures a process with the agents of a run. A benchmark starts it, or a person does for --agents running.
type AgentsConfig struct {
	Cluster   kafka.ClusterConfig
	Namespace string
	// Instance names the process within the namespace. If empty, it gets a unique name.
	Instance    string
	Concurrency int
	Latency     Latency
	// Prefix begins the task IDs of the run. If empty, the agents serve the tasks of any run and count nothing.
	Prefix string
	// Calls is the file for the counts, if any.
	Calls string
	// Orders ends the process when it ends, and a line "slow" in it slows the backends. It is nil if a person started the process.
	Orders io.Reader
	// Progress takes lines about the connection and the number of calls, if it is not nil.
	Progress io.Writer
	Log      *slog.Logger
}

// Agents runs the agents until ctx or its orders end.
func Agents(ctx context.Context, c AgentsConfig) error {
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cluster, err := kafka.Connect(c.Cluster)
	if err != nil {
		return err
	}
	defer cluster.Close()
	m := &mock{names: names{[]byte(c.Prefix)}, backends: backends{latency: c.Latency}, anyTask: c.Prefix == ""}
	if c.Orders != nil {
		// The read ends with the process that gives the orders, however that ends. Nobody waits for this goroutine: nothing can
		// interrupt a read from a pipe, and this process ends next.
		go func() {
			defer stop()
			for lines := bufio.NewScanner(c.Orders); lines.Scan(); {
				if lines.Text() == "slow" {
					m.backends.slow.Store(true)
				}
			}
		}()
	}
	attached, err := c.attach(ctx, cluster, m)
	if err != nil {
		return err
	}
	if err := attached.Run(ctx); err != nil {
		return err
	}
	fmt.Fprintf(c.Progress, "ended; %d calls were answered\n", m.answered.Load())
	if c.Calls == "" {
		return nil
	}
	if err := m.calls.write(c.Calls); err != nil {
		return fmt.Errorf("write the counted calls: %w", err)
	}
	return nil
}

// namespaceEvery is how often agents look for a namespace that does not exist yet.
const namespaceEvery = 500 * time.Millisecond

// attach waits for the namespace and connects the agents. Only nodes create namespaces.
func (c *AgentsConfig) attach(ctx context.Context, cluster *kafka.Cluster, m *mock) (*agent.Connection, error) {
	if err := doctor.Reach(ctx, cluster); err != nil {
		return nil, err
	}
	brokers := strings.Join(cluster.Brokers(), ",")
	for said := false; ; said = true {
		ours, err := c.Orders != nil, error(nil) // a person may have named any namespace
		if !ours {
			if ours, err = refuseForeign(ctx, cluster, c.Namespace); err != nil {
				return nil, err
			}
		}
		if ours {
			a, err := agent.Attach(ctx, work.Over(cluster), m.registry(c.Concurrency), agent.Config{Namespace: c.Namespace, Instance: c.Instance, Log: c.Log})
			if err == nil {
				fmt.Fprintf(c.Progress, "attached to %s, namespace %s: the agents %s, %d calls of each at once, %s a call\n"+
					"they work for every benchmark there with --agents running, until Ctrl-C, which lets the calls under way end\n",
					brokers, c.Namespace, strings.Join(steps[:], ", "), c.Concurrency, c.Latency.Fixed)
				return a, nil
			}
			if !errors.Is(err, kafka.ErrUnknownTopic) {
				return nil, err
			}
		}
		if !said {
			fmt.Fprintf(c.Progress, "reached %s; no benchmark is in namespace %s yet; start it elsewhere by:\n  %s\n",
				brokers, c.Namespace, "sagalog bench tasks --agents running "+where(cluster, c.Namespace))
		}
		if !pause.For(ctx, namespaceEvery) {
			return nil, ctx.Err()
		}
	}
}

// where returns the flags by which another process finds a namespace.
func where(cluster *kafka.Cluster, namespace string) string {
	return fmt.Sprintf("--brokers %s --namespace %s", strings.Join(cluster.Brokers(), ","), namespace)
}

// startOutside starts the process of the agents. If it ends by itself the run ends too, since its counts are lost and the check needs
// them.
func (s *system) startOutside(n names) error {
	c, err := startChild(&s.meters, s.cfg.Program, s.cfg.Stderr, s.outsideArguments(n)...)
	if err != nil {
		return err
	}
	s.outside = c
	s.running.Go(func() error {
		select {
		case <-s.ctx.Done():
			return nil
		case <-c.ended:
		}
		if c.asked.Load() {
			return nil
		}
		return fmt.Errorf("the agents outside (process %d) exited unexpectedly (%w), so their counts are lost; the cause is above; run the benchmark again", c.pid(), c.reason())
	})
	return nil
}

// howToRun returns the command that starts the agents, or "" if the run starts them itself.
func (s *system) howToRun() string {
	if s.cfg.Agents != AgentsRunning {
		return ""
	}
	return "sagalog bench agents " + where(s.cluster, s.cfg.Namespace)
}

// awaitRunning prints how to start the agents.
func (s *system) awaitRunning() {
	fmt.Fprintf(s.cfg.Progress, "the agents run elsewhere; if they do not yet, start them within %s by:\n  %s\n", firstWait, s.howToRun())
}

// nothing is the error text when no task has ended.
func (s *system) nothing() string {
	if how := s.howToRun(); how != "" {
		return fmt.Sprintf("no task ended; the agents are started elsewhere by `%s`; nothing came back", how)
	}
	return "nothing came back"
}

// withCause adds a possible cause to the error of the check.
func (s *system) withCause(v *Verdict) error {
	err := v.Err()
	if err != nil && v.Unfinished > 0 && s.cfg.Agents == AgentsRunning {
		return fmt.Errorf("%w; the agents, which run elsewhere, may have ended: look there, and run it again", err)
	}
	return err
}
