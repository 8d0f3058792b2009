package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/events"
)

// Config says how a Runner works. The zero value of a field means its default.
type Config struct {
	// Namespace is the prefix of all topic names. Default "sagalog".
	Namespace string
	// Instance names this process in reports and presence; unique among the running ones. Required.
	Instance string
	// Sources holds the source of each registered agent. Dial creates and closes them. With NewRunner the caller creates them,
	// and closes them after Run has returned.
	Sources map[string]transport.Source
	// Sink takes reports and heartbeats. It is created and closed by the same side as the sources.
	Sink transport.Sink
	// OutputLimit bounds an output in bytes. Default 256 KiB, the engine's own limit.
	OutputLimit int
	// Keys opens sealed inputs. Default: none, and sealed requests are refused.
	Keys Keys
	// Grace is how long attempts may keep running after a stop before their contexts are cancelled, and also how long they may
	// then take to return. Default 2 s: most calls end within it, and a process supervisor usually waits for 10 s.
	Grace time.Duration
	// CommitEvery is the interval between commits. Work that finished after the last commit is done twice after a crash, except
	// attempts without effect, which are committed at once. Default 200 ms: five commits a second cost a broker nothing.
	CommitEvery time.Duration
	// CommitTimeout bounds one commit. Default 2 s.
	CommitTimeout time.Duration
	// HeartbeatEvery is the interval between heartbeats. Default 1 s.
	HeartbeatEvery time.Duration
	// Trace makes the spans of calls. Default: none, and each call carries the trace context of its task.
	Trace Trace
	// Registerer takes the metrics. Default: none.
	Registerer prometheus.Registerer
	// Log takes the messages for an operator. Default: discarded.
	Log *slog.Logger
}

func (c *Config) withDefaults() {
	c.Namespace = cmp.Or(c.Namespace, events.DefaultNamespace)
	c.OutputLimit = cmp.Or(c.OutputLimit, 256<<10)
	c.Grace = cmp.Or(c.Grace, 2*time.Second)
	c.CommitEvery = cmp.Or(c.CommitEvery, 200*time.Millisecond)
	c.CommitTimeout = cmp.Or(c.CommitTimeout, 2*time.Second)
	c.HeartbeatEvery = cmp.Or(c.HeartbeatEvery, time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
}

func (c *Config) validate(r *Registry) error {
	if r == nil {
		return errNoRegistry
	}
	faults := []error{r.Err()}
	if c.Instance == "" {
		faults = append(faults, errors.New("instance is empty"))
	}
	if c.Sink == nil {
		faults = append(faults, errors.New("sink is missing"))
	}
	if c.OutputLimit < 0 || c.Grace < 0 || c.CommitEvery < 0 || c.CommitTimeout < 0 || c.HeartbeatEvery < 0 {
		faults = append(faults, errors.New("a limit or an interval is negative"))
	}
	for _, name := range r.Agents() {
		if c.Sources[name] == nil {
			faults = append(faults, fmt.Errorf("agent %s has no source", name))
		}
	}
	for name := range c.Sources {
		if r.agents[name] == nil {
			faults = append(faults, fmt.Errorf("a source is given for agent %q, which is not registered", name))
		}
	}
	if len(r.agents) == 0 {
		faults = append(faults, errors.New("no agent is registered"))
	}
	return errors.Join(faults...)
}
