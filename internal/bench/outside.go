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
)

// AgentsConfig is a process with the agents of a run. The command starts it, or a person does for --agents running.
type AgentsConfig struct {
	Cluster   kafka.ClusterConfig
	Namespace string
	// Instance names the process among others of that namespace; empty for a name that nobody else has.
	Instance    string
	Concurrency int
	Latency     Latency
	// Prefix tells the tasks of the run; empty takes any order of any run, and counts nothing.
	Prefix string
	// Calls is the file for the counts; empty for none.
	Calls string
	// Orders ends the process when it ends, and slows the backends by the line "slow"; nil is for a person, who has Ctrl-C.
	Orders io.Reader
	// Progress is told what the agents are connected to, and what they did; nil is nobody.
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

// namespaceEvery is how often agents look for a namespace that is not there yet.
const namespaceEvery = 500 * time.Millisecond

// attach connects the agents, when there is a namespace: only nodes make one.
func (c *AgentsConfig) attach(ctx context.Context, cluster *kafka.Cluster, m *mock) (*agent.Connection, error) {
	if err := kafka.Reach(ctx, cluster); err != nil {
		return nil, err
	}
	brokers := strings.Join(cluster.Brokers(), ",")
	for said := false; ; said = true {
		ours, err := c.Orders != nil, error(nil) // a person may have named any
		if !ours {
			if ours, err = refuseForeign(ctx, cluster, c.Namespace); err != nil {
				return nil, err
			}
		}
		if ours {
			a, err := agent.Attach(ctx, cluster, m.registry(c.Concurrency), agent.Config{Namespace: c.Namespace, Instance: c.Instance, Log: c.Log})
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
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(namespaceEvery):
		}
	}
}

// where are the flags by which another process finds a namespace.
func where(cluster *kafka.Cluster, namespace string) string {
	return fmt.Sprintf("--brokers %s --namespace %s", strings.Join(cluster.Brokers(), ","), namespace)
}

// startOutside starts the process of the agents, without which the run ends: what they counted would be gone, and so would
// the proof.
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
		return fmt.Errorf("the agents outside (process %d) ended by themselves (%w), and with them what they counted; see above for why, and run it again", c.pid(), c.reason())
	})
	return nil
}

// howToRun tells how agents are started for a run that does not do it; "" for one that does.
func (s *system) howToRun() string {
	if s.cfg.Agents != AgentsRunning {
		return ""
	}
	return "sagalog bench agents " + where(s.cluster, s.cfg.Namespace)
}

// awaitRunning says that the agents are to be started, if they are not there.
func (s *system) awaitRunning() {
	fmt.Fprintf(s.cfg.Progress, "the agents are to run elsewhere; if they do not yet, start them within %s by:\n  %s\n", firstWait, s.howToRun())
}

// nothing is what is missing when no task ended.
func (s *system) nothing() string {
	if how := s.howToRun(); how != "" {
		return fmt.Sprintf("no task came back from the agents, which are started elsewhere by `%s`,", how)
	}
	return "nothing came back"
}

// withCause adds to what the check found what may be the cause.
func (s *system) withCause(v *Verdict) error {
	err := v.Err()
	if err != nil && v.Unfinished > 0 && s.cfg.Agents == AgentsRunning {
		return fmt.Errorf("%w; or the agents, which run elsewhere, have ended: look there, and run it again", err)
	}
	return err
}
