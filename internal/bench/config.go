package bench

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
)

// Where the agents of a run are.
const (
	AgentsInside  = "inside"  // Go functions in this process
	AgentsOutside = "outside" // another process, which the run starts
	AgentsRunning = "running" // somewhere else: they run already, and nobody counts their calls
	AgentsNone    = "none"    // nowhere: admission is closed, and nothing is done
)

// AgentPlaces are the places that a run may be told.
var AgentPlaces = []string{AgentsInside, AgentsOutside, AgentsRunning}

// Config is what all runs share. Zero values mean the defaults.
type Config struct {
	// Cluster is how to reach the brokers; nil is a broker in this process.
	Cluster *kafka.ClusterConfig
	// Namespace of the run. Default: "sagalog" on the broker in this process, else a new one.
	Namespace string
	// Dir holds the data. Default: a temporary one, which is removed at the end.
	Dir        string
	Partitions int32
	// PartitionsSet says that a person asked for Partitions: a namespace that has another number is then an error.
	PartitionsSet bool
	// Fsync has the broker in this process write each batch to the disk before it acknowledges.
	Fsync bool
	// ByPort has this process reach its own broker by TCP, as other processes do; it is else reached in memory.
	ByPort bool
	// Virtual gives the broker in this process no port at all.
	Virtual bool

	// Agents is one of the places above.
	Agents string
	// Concurrency is how many calls of each agent run at once.
	Concurrency int
	Latency     Latency

	// Warmup comes before the window that is measured, Duration is the window.
	Warmup, Duration time.Duration
	// Drain bounds how long what is under way may take to end behind the window.
	Drain time.Duration

	// Program is the binary for other processes: sagalog itself. ChildFlags are added to all calls of it, such as how to
	// authenticate to the brokers.
	Program    string
	ChildFlags []string
	// Origin is told in the result; nil is nothing of it.
	Origin *Origin
	// Progress is told once a second how it goes; nil is nobody.
	Progress io.Writer
	// Stderr takes what other processes say.
	Stderr io.Writer
	Log    *slog.Logger
	// Profile, where set, takes a CPU profile of the window.
	Profile string
	// MemProfile, where set, takes a profile of what is alive at the end of the window.
	MemProfile string

	// untimed keeps no due times: for runs with more tasks than their latencies are worth.
	untimed bool
	// copied says that data and namespace are a copy that nobody needs, whoever made it.
	copied bool
}

func (c *Config) setDefaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.Duration, 20*time.Second)
	set(&c.Drain, 5*time.Minute)
	if c.Namespace == "" {
		c.Namespace = "sagalog"
	}
	if c.Partitions == 0 {
		c.Partitions = 8
	}
	if c.Concurrency == 0 {
		c.Concurrency = 512
	}
	if c.Agents == "" {
		c.Agents = AgentsInside
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
}

// Validate says all that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(c.Partitions < 0 || c.Partitions > 1000, "--partitions %d is not from 1 to 1000", c.Partitions)
	fault(c.Concurrency < 0 || c.Concurrency > 10_000, "--concurrency %d is not from 1 to 10000", c.Concurrency)
	fault(c.Duration < 0 || c.Warmup < 0 || c.Drain < 0, "--duration, --warmup and --drain are not negative")
	fault(c.Latency.Fixed < 0 || c.Latency.Tail < 0, "--latency and --tail are not negative")
	fault(c.Latency.TailShare < 0 || c.Latency.TailShare > 1, "--tail: a share is from 0%% to 100%%")
	fault(c.Latency.SlowAfter < 0, "--slow-after %s is negative", c.Latency.SlowAfter)
	fault(c.Latency.SlowFactor != 0 && !(c.Latency.SlowFactor > 1 && c.Latency.SlowFactor <= 1e6), "--slow-factor %g is not above 1", c.Latency.SlowFactor)
	fault(c.Agents == AgentsRunning && c.Cluster == nil, "--agents running needs --brokers: no other process is told where the broker of this one is")
	fault(c.Cluster != nil && c.Fsync, "--fsync is for the broker in this process; how --brokers write is theirs to say")
	fault(c.Cluster != nil && c.ByPort, "--by-port is for the broker in this process")
	fault(c.Virtual && c.Agents != "" && c.Agents != AgentsInside, "a broker without a port is reached by no other process: its agents are inside")
	fault(c.Agents == AgentsRunning && c.Latency.SlowFactor > 0, "--slow-factor is told to agents that the command starts; those that run already cannot be slowed")
	return errors.Join(errs...)
}

// durability names what an acknowledgement of this run promises.
func (c *Config) durability(replication string) string {
	switch {
	case c.Cluster != nil:
		return "Kafka, acks=all, " + replication + "; the brokers' own setting decides what is on the disk"
	case c.Fsync:
		return "embedded broker, each answer waits until the disk has what it tells (group commit)"
	}
	return "embedded broker, page cache (survives kill -9, a power cut may lose the last batches)"
}
