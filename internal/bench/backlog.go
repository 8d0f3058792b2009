package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// BacklogConfig is a run of `sagalog bench backlog`.
type BacklogConfig struct {
	Config
	// Tasks is the number of waiting tasks.
	Tasks int
	// Hold is how long they wait once all are accepted.
	Hold time.Duration
}

// Validate reports every fault at once.
func (c *BacklogConfig) Validate() error {
	all := faults{c.Config.Validate()}
	all.add(c.Tasks < 1 || c.Tasks > maxTasks, "--tasks %d is not from 1 to %d", c.Tasks, maxTasks)
	all.add(c.Hold < 0, "--hold %s is negative", c.Hold)
	return errors.Join(all...)
}

// backlogAhead is the number of unanswered submissions: tasks should wait in the engine, not before it.
const backlogAhead = 5000

// backlogMost bounds a run whose engine has stopped accepting.
const backlogMost = 12 * time.Hour

// Backlog submits tasks that no agent takes, and measures the memory that they take while they wait.
func Backlog(ctx context.Context, c *BacklogConfig) (_ *Result, err error) {
	c.setDefaults()
	c.Agents, c.untimed, c.Duration, c.Warmup = AgentsNone, true, backlogMost, 0
	b, err := openBench(ctx, &c.Config, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	b.describe(ctx, "backlog")
	b.result.Load = fmt.Sprintf("%d submissions by Kafka, %d without an answer at once, then %s of waiting", c.Tasks, backlogAhead, c.Hold)
	b.load.limit, b.load.untilAck, b.watch.ended = c.Tasks, true, func(int) {}
	b.first = func() bool { return b.load.acks.acked.Load() > 0 }
	end := b.drive(func(stop <-chan struct{}) { b.load.closed(b.ctx, stop, backlogAhead) })
	var whole time.Time // when all were accepted
	from, to, err := b.window(ctx, func() bool {
		if whole.IsZero() && b.watch.counts().submitted >= int64(c.Tasks) {
			whole = time.Now()
		}
		return !whole.IsZero() && time.Since(whole) >= c.Hold
	})
	end()
	if err != nil {
		return nil, err
	}
	b.fill(from, to)
	r := &b.result
	r.CPUPerTask, r.AllocsTask, r.AllocBytes, r.LogBytes = 0, 0, 0, 0 // figures of tasks that end
	r.Submissions = b.acked
	r.labels = map[string]string{"SubmitPerSec": "of them a second, until all were accepted", "Submissions": "submissions acknowledged in the measured time, which begins when the first was"}
	if !whole.IsZero() {
		r.SubmitPerSec = round(float64(b.acked)/whole.Sub(from.at).Seconds(), 1)
	}
	r.CPUPerSubmit = round(per(float64((to.cpu-from.cpu).Nanoseconds())/1e3, b.acked), 1)
	return b.finish(ctx, evidence{})
}
