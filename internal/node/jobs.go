package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/sagalog/sagalog/scheduler"
)

// jobs implements api.Jobs.
type jobs struct {
	ns       *namespace
	producer *kafka.Producer
	// keys opens arguments, to compare them; nil for a node without a key.
	keys *sealing.Keys
}

// Jobs implements api.Jobs.
func (j *jobs) Jobs(ctx context.Context) (map[string]api.Job, error) {
	if err := j.ns.catalog.upToNow(ctx); err != nil {
		return nil, noAnswer(err)
	}
	list := map[string]api.Job{}
	for id, r := range j.ns.catalog.Jobs() {
		list[id] = jobOf(r)
	}
	return list, nil
}

func jobOf(r scheduler.JobRecord) api.Job {
	out := api.Job{Job: r.Job, OpenedAt: r.OpenedAt, EndedAt: r.EndedAt, Stop: r.Stop}
	for _, p := range r.Progress {
		out.Granted += p.Granted
		out.Refused += p.Refused
		out.Refusals = append(out.Refusals, p.Refusals...)
	}
	return out
}

// OpenJob implements api.Jobs.
func (j *jobs) OpenJob(ctx context.Context, job events.Job) (now api.Job, opened bool, err error) {
	if err := j.ns.catalog.upToNow(ctx); err != nil {
		return now, false, noAnswer(err)
	}
	if known, ok := j.ns.catalog.Jobs()[job.ID]; ok {
		return j.sameJob(known, &job)
	}
	if j.ns.catalog.OpenJobs() >= scheduler.MaxOpenJobs {
		return now, false, api.ErrTooManyJobs
	}
	if err := j.write(ctx, &job); err != nil {
		return now, false, err
	}
	known, ok := j.ns.catalog.Jobs()[job.ID]
	if !ok { // others have opened as many meanwhile
		return now, false, api.ErrTooManyJobs
	}
	now, _, err = j.sameJob(known, &job)
	return now, err == nil, err
}

// sameJob compares two jobs with one ID. Sealing gives other bytes each time, so sealed arguments are compared by their content.
func (j *jobs) sameJob(known scheduler.JobRecord, job *events.Job) (now api.Job, opened bool, err error) {
	a, b := known.Job, *job
	if events.HasSealed(a.Args) || events.HasSealed(b.Args) {
		for _, x := range []*events.Job{&a, &b} {
			if x.Args, err = comparableArgs(j.keys, x.Args); err != nil {
				return now, false, err
			}
		}
	}
	if !a.Same(&b) {
		return now, false, api.ErrOtherJob
	}
	return jobOf(known), false, nil
}

func comparableArgs(keys *sealing.Keys, args json.RawMessage) (json.RawMessage, error) {
	args, err := openArgs(keys, args)
	if err != nil {
		return nil, noAnswer(err)
	}
	v, err := events.DecodeValue(args)
	if err != nil {
		return nil, err
	}
	return events.Marshal(v)
}

// StopJob implements api.Jobs.
func (j *jobs) StopJob(ctx context.Context, stop events.JobStop) (now api.Job, changed bool, err error) {
	if err := j.ns.catalog.upToNow(ctx); err != nil {
		return now, false, noAnswer(err)
	}
	known, ok := j.ns.catalog.Jobs()[stop.Job]
	if !ok {
		return now, false, api.ErrNoJob
	}
	if known.EndedAt != 0 || known.Stop != nil {
		return jobOf(known), false, nil
	}
	if err := j.write(ctx, &stop); err != nil {
		return now, false, err
	}
	known = j.ns.catalog.Jobs()[stop.Job]
	return jobOf(known), known.Stop != nil, nil
}

// write appends a record and reads it back.
func (j *jobs) write(ctx context.Context, v scheduler.JobValue) error {
	r, err := jobRecord(j.ns, v)
	if err != nil {
		return err
	}
	at, err := j.producer.ProduceSync(ctx, r)
	if err != nil {
		return noAnswer(fmt.Errorf("record a job: %w", err))
	}
	return noAnswer(j.ns.catalog.upTo(ctx, at[0]+1))
}

func jobRecord(ns *namespace, v scheduler.JobValue) (events.Record, error) {
	r, err := scheduler.EncodeJob(v, events.Subject{ID: uuid.NewString(), Source: "/" + ns.name + "/jobs", Time: events.At(time.Now())})
	r.Topic = ns.topics.Definitions()
	return r, err
}
