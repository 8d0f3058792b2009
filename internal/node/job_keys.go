package node

import (
	"context"
	"errors"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/sagalog/sagalog/internal/sealing"
)

// A job with content seals it for each task. A task whose key the key file lacks is asked when all others have been: the job does not stop at it, and
// has not ended before it is asked. If the topic of keys cannot be read, no task can be asked, and the run begins again.

const (
	// keylessRetry is how often the tasks that wait for a key are tried again, and mostKeyless bounds them.
	keylessRetry = 5 * time.Second
	mostKeyless  = 1000
)

// withoutKey handles a task for which nothing can be sealed. It returns the error if the run cannot go on. before is the progress before the tasks that
// are asked with it.
func (r *jobRun) withoutKey(t *events.Task, before *events.JobProgress, err error) error {
	if e, erased := errors.AsType[*events.ErasedError](err); erased {
		r.count(t.ID, e.Error()+", and with it the key for what is sent to the task")
		return nil
	}
	if errors.Is(err, sealing.ErrNoKey) {
		r.count(t.ID, err.Error())
		return nil
	}
	if why, passes := errors.AsType[*events.NoKeyError](err); !passes || why.Missing == "" || len(r.keyless) >= mostKeyless {
		return err
	}
	if r.held == nil {
		r.held = before
		r.log.Warn("tasks of a job wait for a key; the others are asked meanwhile", "job", r.job.ID, "partition", r.partition, "task", t.ID, "error", err)
	}
	r.keyless = append(r.keyless, t)
	return nil
}

// askKeyless asks the tasks that wait for a key, after a while.
func (r *jobRun) askKeyless(ctx context.Context) error {
	if !pause.For(ctx, keylessRetry) {
		return ctx.Err()
	}
	tasks := r.keyless
	n := min(len(tasks), jobChunk)
	if ready, err := r.await(ctx, n); !ready || err != nil {
		return err
	}
	r.keyless = append([]*events.Task(nil), tasks[n:]...)
	if err := r.ask(ctx, tasks[:n]); err != nil {
		return err
	}
	if len(r.keyless) > 0 {
		return nil
	}
	r.held = nil
	return r.save(ctx)
}
