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
	// Tasks is how many are to wait.
	Tasks int
	// Hold is how long they are left waiting when all are there.
	Hold time.Duration
}

// Validate says all that is wrong at once.
func (c *BacklogConfig) Validate() error {
	errs := []error{c.Config.Validate()}
	if c.Tasks < 1 || c.Tasks > maxTasks {
		errs = append(errs, fmt.Errorf("--tasks is from 1 to %d", maxTasks))
	}
	if c.Hold < 0 {
		errs = append(errs, errors.New("--hold is not negative"))
	}
	return errors.Join(errs...)
}

// backlogAhead are the submissions without an answer at once: what waits shall wait in the engine, not before it.
const backlogAhead = 5000

// backlogMost bounds a run whose engine accepts nothing any more.
const backlogMost = 12 * time.Hour

// Backlog submits tasks that nobody works on, and tells the memory that they take while they wait.
func Backlog(ctx context.Context, c BacklogConfig) (_ *Result, err error) {
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
	r.CPUPerTask, r.AllocsTask, r.AllocBytes, r.LogBytes = 0, 0, 0, 0 // of tasks that end
	r.Submissions = b.acked
	r.labels = map[string]string{"SubmitPerSec": "of them a second, until all were accepted", "Submissions": "submissions acknowledged in the measured time, which begins when the first was"}
	if !whole.IsZero() {
		r.SubmitPerSec = round(float64(b.acked)/whole.Sub(from.at).Seconds(), 1)
	}
	r.CPUPerSubmit = round(per(float64((to.cpu-from.cpu).Nanoseconds())/1e3, b.acked), 1)
	return b.finish(ctx, evidence{})
}
