package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// TasksConfig is a run of `sagalog bench tasks`.
type TasksConfig struct {
	Config
	// Outstanding is the number of tasks under way (closed loop). If Rate is set, that many are due each second instead (open
	// loop).
	Outstanding int
	Rate        float64
	// Tasks ends the window after this many tasks, counted from the first. 0 means that only Duration ends it.
	Tasks int
	// Permits makes each task need a permit of a key that no other task has. None waits for another, so what such a run costs beyond one
	// without permits is the cost of a permit: the ask, the grant and the release.
	Permits bool
	// Limit makes one step of each task need a permit of the same named limit, which has more of them than attempts run. What such a run costs
	// beyond a run without it is the cost of that permit.
	Limit bool
	// Items, if it is not zero, gives each task one step with this many items instead of five steps.
	Items int
	// Bytes makes the run end by reading all topics, to say where the bytes of a task are.
	Bytes bool
}

// itemsAtOnce is how many items of a task run at once: see items.yaml.
const itemsAtOnce = 100

// maxOutstanding bounds the tasks of a closed loop. It is more than any engine keeps under way.
const maxOutstanding = 1_000_000

// Validate reports every fault at once.
func (c *TasksConfig) Validate() error {
	all := faults{c.Config.Validate()}
	all.add(c.Outstanding < 0 || c.Outstanding > maxOutstanding, "--outstanding %d is not from 1 to %d", c.Outstanding, maxOutstanding)
	all.add(c.Tasks < 0, "--tasks %d is negative", c.Tasks)
	all.add(!(c.Rate >= 0) || math.IsInf(c.Rate, 0), "--rate %g is not a number of tasks a second", c.Rate)
	all.add(c.Latency.SlowFactor > 0 && c.Duration > 0 && c.Latency.SlowAfter >= c.Duration, "--slow-after %s is not within --duration %s", c.Latency.SlowAfter, c.Duration)
	all.add(c.Outstanding > 0 && c.Rate > 0, "--outstanding (closed loop) and --rate (open loop) exclude each other: give one of them")
	all.add(c.Items < 0 || c.Items > events.MaxItems, "--items %d is not from 1 to %d", c.Items, events.MaxItems)
	all.add(c.Items > 0 && (c.Permits || c.Limit), "--items excludes --permits and --limit")
	all.add(c.Items > 0 && c.Agents != AgentsInside, "--items needs agents in this process: those elsewhere do not count calls by item")
	all.add(c.Tasks > maxTasks || c.Rate*(c.Warmup+c.Duration).Seconds() > maxTasks, "a run holds %d tasks at most: --tasks, or --rate times --warmup and --duration, is more", maxTasks)
	return errors.Join(all...)
}

// Tasks runs five-step tasks and measures them.
func Tasks(ctx context.Context, c *TasksConfig) (_ *Result, err error) {
	c.setDefaults()
	if c.Outstanding == 0 && c.Rate == 0 {
		c.Outstanding = 1000 / min(max(c.Items, 1), itemsAtOnce)
	}
	c.permits, c.limited, c.items = c.Permits, c.Limit, c.Items
	b, err := openBench(ctx, &c.Config, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	b.load.limit = c.Tasks
	b.describe(ctx, "tasks")
	b.result.Load = fmt.Sprintf("closed loop, %d tasks outstanding", c.Outstanding)
	if c.Rate > 0 {
		b.rate = c.Rate
		b.result.Load = fmt.Sprintf("open loop, %g tasks/s", c.Rate)
	}
	if c.Items > 0 {
		b.result.Load += fmt.Sprintf(", each task with %d items", c.Items)
	}
	if c.Permits {
		b.result.Load += ", each task with a permit"
	}
	if c.Limit {
		b.result.Load += ", a step of each task with a permit of one named limit"
	}
	end := b.drive(func(stop <-chan struct{}) {
		if c.Rate > 0 {
			b.load.open(b.ctx, stop, c.Rate)
		} else {
			b.load.closed(b.ctx, stop, c.Outstanding)
		}
	})
	from, to, err := b.window(ctx, func() bool { return b.load.full() && b.load.inFlight.Load() <= 0 })
	end()
	if err != nil {
		return nil, err
	}
	b.fill(from, to)
	b.fillRate(&b.result.Tasks)
	if ok := b.result.RateReached; ok != nil && !*ok {
		b.result.note("CPU and allocations per task include the cost of tasks that did not end in the measured time")
	}
	r, err := b.finish(ctx, evidence{ends: true})
	if r != nil {
		err = errors.Join(err, b.fillTopics(context.WithoutCancel(ctx), c.Bytes))
	}
	return r, err
}

// describe fills in the description of the run.
func (b *bench) describe(ctx context.Context, run string) {
	c := b.cfg
	b.result.Run, b.result.Origin, b.result.Namespace, b.result.Cores = run, c.Origin, c.Namespace, runtime.NumCPU()
	b.result.Durability = c.durability(b.replication(ctx))
	b.result.Broker = "embedded, reached in memory by this process"
	switch {
	case c.Cluster != nil:
		b.result.Broker = strings.Join(b.cluster.Brokers(), ",") + " (their CPU and memory count only as those of other processes, if they are on this machine)"
	case c.ByPort:
		b.result.Broker = "embedded, reached by TCP"
	}
	if c.Cluster != nil {
		b.result.note("the topics of namespace %s stay on the brokers; delete them by: kafka-topics.sh --bootstrap-server %s --delete --topic '(dlq\\.)?%s\\..*'", c.Namespace, c.Cluster.Brokers[0], strings.ReplaceAll(c.Namespace, ".", `\.`))
	}
	b.result.Broker += fmt.Sprintf(", %d partitions", b.partitions)
	if c.Agents == AgentsNone {
		b.result.Agents = "none: admission is closed"
		return
	}
	b.result.Agents = fmt.Sprintf("%s, %d calls of each at once", c.Agents, c.Concurrency)
	if c.Agents == AgentsRunning {
		b.result.Agents, b.result.Backends = "running elsewhere: their resources and calls are not counted", "as set for those agents"
		return
	}
	b.result.Backends = fmt.Sprintf("%s a call", c.Latency.Fixed)
	if c.Latency.TailShare > 0 {
		b.result.Backends += fmt.Sprintf(", %g %% of the calls %s", 100*c.Latency.TailShare, c.Latency.Tail)
	}
	if c.Latency.SlowFactor > 0 {
		b.result.Backends += fmt.Sprintf(", all %g times slower after %s", c.Latency.SlowFactor, c.Latency.SlowAfter)
	}
}
