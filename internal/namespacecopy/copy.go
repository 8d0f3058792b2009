package namespacecopy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/sagalog/sagalog/supervisor"
)

// Place is a namespace on a cluster.
type Place struct {
	Cluster *kafka.Cluster
	// Namespace is the prefix of its topics.
	Namespace string
}

func (p Place) topics() kafka.Topics { return kafka.Topics{Namespace: p.Namespace} }

// String names the place in messages.
func (p Place) String() string { return p.Namespace + " on " + strings.Join(p.Cluster.Brokers(), ",") }

// Config says what is copied to where. It is copied from a namespace, or from checkpoints.
type Config struct {
	From Place
	// Checkpoints are directories of checkpoints; From is not used then. Of each partition the latest state counts.
	Checkpoints []string
	To          Place
	// Partitions is how many the new namespace has; zero: as many as the old one.
	Partitions int32
	// KeyFile opens what the namespace encrypts; nil without one. It is needed only if a step is being undone whose undo has a `with`.
	KeyFile *sealing.KeyFile
	// Dir is where the state is folded; it is removed at the end. Empty: a temporary directory.
	Dir string
	Now func() time.Time
	// Progress takes a line when something begins or was done.
	Progress func(line string)
}

// Result is what was copied.
type Result struct {
	ID             string `json:"id"`
	From           string `json:"from"`
	To             string `json:"to"`
	FromPartitions int32  `json:"from_partitions"`
	Partitions     int32  `json:"partitions"`
	// Tasks counts all tasks, and Live those that have not ended.
	Tasks int64 `json:"tasks"`
	Live  int64 `json:"live"`
	// Entities counts schedules, limits, permits and adopted definitions, each once, and Definitions the records of the definitions.
	Entities    int `json:"entities"`
	Definitions int `json:"definitions"`
	// Keys counts the records that were copied from the topic of keys.
	Keys int `json:"keys,omitzero"`
	// Inputs counts the inputs that nobody had judged, and Held the requests that wait for a task.
	Inputs int64 `json:"inputs"`
	Held   int64 `json:"held"`
	// Work counts the requests for attempts under way, and Sent the other records that may not have been sent.
	Work int64 `json:"work"`
	Sent int64 `json:"sent"`
	// Unsent lists what could not be sent to topics outside of the namespace: replies.
	Unsent []string `json:"unsent,omitempty"`
}

// copying is a copy under way.
type copying struct {
	Config
	from   *source
	made   time.Time
	epoch  string
	result Result
	// keys and scheduler evaluate definitions; keys is nil without a key file.
	keys      *sealing.Keys
	scheduler supervisor.Scheduler
	// logs are the topics of both namespaces.
	logs Logs
	// reported are the attempts about whose outcome an input says something that nobody has judged.
	reported map[attempt]bool
}

// Copy makes the copy. If it fails or the process dies, the old namespace stays closed, and a new attempt begins with topics that hold nothing.
func Copy(ctx context.Context, cfg Config) (_ *Result, err error) {
	c := &copying{Config: cfg, made: cfg.Now(), epoch: freshID(), reported: map[attempt]bool{}}
	if err := c.checkTarget(ctx); err != nil {
		return nil, err
	}
	if c.Dir == "" {
		if c.Dir, err = os.MkdirTemp("", "sagalog-copy-"); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.Dir)) }()
	if c.from, err = c.open(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.from.close()) }()
	if c.Partitions == 0 {
		c.Partitions = c.from.ns.Partitions
	}
	c.result = Result{ID: c.from.ns.ID, From: c.from.name, To: c.To.String(), FromPartitions: c.from.ns.Partitions, Partitions: c.Partitions}
	producer, err := kafka.NewProducer(c.To.Cluster)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	c.logs = &clusterLogs{c, producer}
	if err := c.write(ctx); err != nil {
		return nil, fmt.Errorf("%w\nthe copy is not complete, and nothing will run in it: %s", err, c.again(ctx))
	}
	return &c.result, nil
}

// write writes the new namespace, its first record last.
func (c *copying) write(ctx context.Context) error {
	if err := kafka.EnsureTopics(ctx, c.To.Cluster, c.To.topics().Base(c.Partitions)...); err != nil {
		return fmt.Errorf("make the topics of %s: %w", c.To, err)
	}
	if err := c.writeKeys(ctx); err != nil {
		return err
	}
	return c.fill(ctx)
}

// fill writes the definitions, all that comes from the partitions, and then the record with which the namespace exists.
func (c *copying) fill(ctx context.Context) error {
	d, err := c.writeDefinitions(ctx)
	if err != nil {
		return err
	}
	//mutant:copy-exists-once-complete
	for _, do := range [...]func(context.Context) error{c.move, d.complete} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// move writes all that comes from the partitions.
func (c *copying) move(ctx context.Context) error {
	if err := c.writeInputs(ctx); err != nil {
		return err
	}
	if err := c.writeStates(ctx); err != nil {
		return err
	}
	return c.sendOwed(ctx)
}

func (c *copying) say(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}
