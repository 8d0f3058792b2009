package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// The places where the agents of a run can be.
const (
	AgentsInside  = "inside"  // Go functions in this process
	AgentsOutside = "outside" // another process, which the run starts
	AgentsRunning = "running" // elsewhere: they are already running, and their calls are not counted
	AgentsNone    = "none"    // nowhere: admission is closed, and no step is done
)

// AgentPlaces are the places that a user can choose.
var AgentPlaces = []string{AgentsInside, AgentsOutside, AgentsRunning}

// Config holds the settings that all runs share. Zero values mean the defaults.
type Config struct {
	// Cluster says how to reach the brokers. Nil means a broker in this process.
	Cluster *kafka.ClusterConfig
	// Namespace of the run. Default: "sagalog" on the broker in this process, otherwise a new one.
	Namespace string
	// Dir holds the data. Default: a temporary directory, which is removed at the end.
	Dir        string
	Partitions int32
	// PartitionsSet says that the user gave Partitions. A namespace with another number is then an error.
	PartitionsSet bool
	// Fsync makes the broker in this process write each batch to the disk before it acknowledges.
	Fsync bool
	// ByPort makes this process reach its broker by TCP, as other processes do, and not in memory.
	ByPort bool

	// Agents is one of the places above.
	Agents string
	// Concurrency is how many calls of each agent run at once.
	Concurrency int
	Latency     Latency

	// Warmup precedes the measured window, and Duration is the window.
	Warmup, Duration time.Duration
	// Drain bounds how long tasks may take to end after the window.
	Drain time.Duration

	// Program is the binary for other processes: sagalog itself. ChildFlags are added to each call of it, such as those for
	// authentication.
	Program    string
	ChildFlags []string
	// Origin is part of the result, if it is not nil.
	Origin *Origin
	// Progress takes a line a second, if it is not nil.
	Progress io.Writer
	// Stderr takes the output of other processes.
	Stderr io.Writer
	Log    *slog.Logger
	// Profile is a file for a CPU profile of the window, if it is set.
	Profile string
	// MemProfile is a file for a profile of the live memory at the end of the window, if it is set.
	MemProfile string

	// permits makes each task need a permit of a key that no other task has.
	permits bool
	// limited makes one step of each task need a permit of a named limit.
	limited bool
	// items is how many items each task has instead of five steps, if it is not zero.
	items int
	// untimed stores no due times, for runs with very many tasks whose latencies do not matter.
	untimed bool
	// copied says that data and namespace are a disposable copy.
	copied bool
}

func (c *Config) setDefaults() {
	c.Duration, c.Drain = cmp.Or(c.Duration, 20*time.Second), cmp.Or(c.Drain, 5*time.Minute)
	c.Namespace = cmp.Or(c.Namespace, events.DefaultNamespace)
	c.Partitions = cmp.Or(c.Partitions, 8)
	c.Concurrency = cmp.Or(c.Concurrency, 512)
	c.Agents = cmp.Or(c.Agents, AgentsInside)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Progress, c.Stderr = cmp.Or(c.Progress, io.Discard), cmp.Or(c.Stderr, io.Discard)
}

// faults are all the things that are wrong with a configuration.
type faults []error

// add adds a fault if wrong is true.
func (f *faults) add(wrong bool, format string, args ...any) {
	if wrong {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Validate reports every fault at once.
func (c *Config) Validate() error {
	var all faults
	all.add(c.Partitions < 0 || c.Partitions > 1000, "--partitions %d is not from 1 to 1000", c.Partitions)
	all.add(c.Concurrency < 0 || c.Concurrency > 10_000, "--concurrency %d is not from 1 to 10000", c.Concurrency)
	all.add(c.Duration < 0 || c.Warmup < 0 || c.Drain < 0, "--duration, --warmup and --drain must not be negative")
	all.add(c.Latency.Fixed < 0 || c.Latency.Tail < 0, "--latency and --tail must not be negative")
	all.add(c.Latency.TailShare < 0 || c.Latency.TailShare > 1, "--tail: the share must be from 0%% to 100%%")
	all.add(c.Latency.SlowAfter < 0, "--slow-after %s is negative", c.Latency.SlowAfter)
	all.add(c.Latency.SlowFactor != 0 && !(c.Latency.SlowFactor > 1 && c.Latency.SlowFactor <= 1e6), "--slow-factor %g is not above 1", c.Latency.SlowFactor)
	all.add(c.Agents == AgentsRunning && c.Cluster == nil, "--agents running needs --brokers: other processes do not know the broker of this one")
	all.add(c.Cluster != nil && c.Fsync, "--fsync is for the broker in this process; with --brokers their own settings decide")
	all.add(c.Cluster != nil && c.ByPort, "--by-port is for the broker in this process")
	all.add(c.Agents == AgentsRunning && c.Latency.SlowFactor > 0, "--slow-factor works for agents that the command starts; agents that run already cannot be slowed")
	return errors.Join(all...)
}

// durability describes the promise of an acknowledgement in this run.
func (c *Config) durability(replication string) string {
	switch {
	case c.Cluster != nil:
		return "Kafka, acks=all, " + replication + "; the brokers' own setting decides what is on the disk"
	case c.Fsync:
		return "embedded broker, each answer waits until its data is on the disk (group commit)"
	}
	return "embedded broker, page cache (survives kill -9, a power cut may lose the last batches)"
}
