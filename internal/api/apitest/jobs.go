package apitest

import (
	"context"
	"maps"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// Jobs implements api.Jobs.
func (e *Engine) Jobs(context.Context) (map[string]api.Job, error) {
	if err := e.asked(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.jobs), nil
}

// OpenJob implements api.Jobs. A job is worked on at once, or when WorkOnJobs is called.
func (e *Engine) OpenJob(_ context.Context, job events.Job) (now api.Job, opened bool, err error) {
	if err := e.asked(); err != nil {
		return now, false, err
	}
	e.mu.Lock()
	known, again := e.jobs[job.ID]
	switch {
	case again && !known.Same(&job):
		e.mu.Unlock()
		return now, false, api.ErrOtherJob
	case again:
		e.mu.Unlock()
		return known, false, nil
	}
	if e.jobs == nil {
		e.jobs = map[string]api.Job{}
	}
	e.jobs[job.ID] = api.Job{Job: job, OpenedAt: e.tick()}
	e.mu.Unlock()
	if !e.JobsWait {
		e.WorkOnJobs()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.jobs[job.ID], true, nil
}

// StopJob implements api.Jobs.
func (e *Engine) StopJob(_ context.Context, stop events.JobStop) (now api.Job, changed bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, known := e.jobs[stop.Job]
	switch {
	case !known:
		return now, false, api.ErrNoJob
	case now.EndedAt != 0:
		return now, false, nil
	}
	now.Stop, now.EndedAt = &stop, e.tick()
	e.jobs[stop.Job] = now
	return now, true, nil
}

// WorkOnJobs asks the tasks of the jobs that have not ended.
func (e *Engine) WorkOnJobs() {
	e.mu.Lock()
	open := maps.Clone(e.jobs)
	e.mu.Unlock()
	for _, job := range open {
		if job.EndedAt == 0 {
			e.workOn(job)
		}
	}
}

func (e *Engine) workOn(job api.Job) {
	ctx := context.Background()
	since, until, _ := job.Filter.Window(job.OpenedAt)
	match, _ := job.Filter.Match(job.OpenedAt)
	q := api.Query{Match: match, States: job.Filter.State, Workflow: job.Filter.Workflow, Labels: job.Filter.Labels(), Since: since, Until: until, Limit: api.MaxLimit}
	page, err := e.List(ctx, q)
	if err != nil {
		panic(err)
	}
	for _, t := range page.Tasks {
		asked := events.Request{ID: job.RequestID(), Kind: job.Verb, Task: t.ID, Reason: job.Reason, By: job.By}
		r, err := events.EncodeRequest(asked, events.Subject{ID: asked.ID, Source: "/test", Time: events.At(e.Now())})
		if err != nil {
			panic(err)
		}
		r.Topic, r.Partition = "test."+string(events.Reports), events.Home(t.ID, Partitions)
		e.Produce(ctx, r, func(int32, int64, error) {})
		now, err := e.Task(ctx, t.ID)
		if err != nil {
			panic(err)
		}
		if judged, ok := now.Request(asked.ID); ok && judged.Refused == "" {
			job.Granted++
			continue
		} else if ok {
			job.Refusals = append(job.Refusals, events.JobRefusal{Task: t.ID, Reason: judged.Refused})
		} else {
			job.Refusals = append(job.Refusals, events.JobRefusal{Task: t.ID, Reason: "because."})
		}
		job.Refused++
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	job.EndedAt = e.tick()
	e.jobs[job.ID] = job
}
