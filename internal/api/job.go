package api

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sagalog/sagalog/events"
)

// Jobs knows the jobs, opens new ones and stops them. Its errors are the ones below or ErrNoAnswer.
type Jobs interface {
	// Jobs returns the jobs by ID, as of all records that were durable before the call.
	Jobs(ctx context.Context) (map[string]Job, error)
	// OpenJob records a job. If the same one was opened before, nothing is written, and opened is false.
	OpenJob(ctx context.Context, job events.Job) (now Job, opened bool, err error)
	// StopJob records that a job is stopped; false if it was stopped or has ended before.
	StopJob(ctx context.Context, stop events.JobStop) (now Job, changed bool, err error)
}

// The errors of Jobs.
var (
	// ErrTooManyJobs says that as many jobs are open as a namespace can have.
	ErrTooManyJobs = errors.New("too many jobs are open")
	// ErrOtherJob says that the ID belongs to a job that asks for something else.
	ErrOtherJob = errors.New("another job has that ID")
	// ErrNoJob says that no job has that ID.
	ErrNoJob = errors.New("no such job")
)

// Job is a job and what is known about it.
type Job struct {
	events.Job
	OpenedAt events.Instant
	// EndedAt is zero until all partitions are done.
	EndedAt          events.Instant
	Stop             *events.JobStop
	Granted, Refused int
	// Refusals are the first refusals of each partition.
	Refusals []events.JobRefusal
}

// The states of a job.
const (
	jobRunning  = "running"
	jobStopping = "stopping"
	jobStopped  = "stopped"
	jobDone     = "done"
)

// JobDocument is a job.
type JobDocument struct {
	ID     string           `json:"id"`
	Verb   events.Verb      `json:"verb"`
	Args   json.RawMessage  `json:"args,omitempty"`
	Filter events.JobFilter `json:"filter"`
	Reason string           `json:"reason,omitempty"`
	By     string           `json:"by,omitempty"`
	Rate   string           `json:"rate,omitempty"`
	Limit  int              `json:"limit,omitzero"`

	State   string `json:"state" enum:"running,stopping,stopped,done" doc:"stopping: the tasks that were asked before the stop are still counted"`
	Matched int    `json:"matched" doc:"How many tasks matched when the job was opened; once it has ended, how many were asked"`
	Granted int    `json:"granted" doc:"How many tasks granted the request. It lags by a few seconds, and by up to five minutes in a long job"`
	Refused int    `json:"refused" doc:"How many tasks refused the request"`
	Left    int    `json:"left" doc:"How many tasks are still to be asked"`

	StartedAt events.Instant `json:"started_at,omitzero" format:"date-time"`
	EndedAt   events.Instant `json:"ended_at,omitzero" format:"date-time"`
	StoppedBy string         `json:"stopped_by,omitempty"`
	Changed   bool           `json:"changed,omitzero" doc:"This call opened the job, or stopped it"`
}

func jobDocument(j *Job) JobDocument {
	d := JobDocument{
		ID: j.ID, Verb: j.Verb, Args: j.Args, Filter: j.Filter, Reason: j.Reason, By: j.By, Rate: j.Rate, Limit: j.Limit,
		State: jobRunning, Granted: j.Granted, Refused: j.Refused, StartedAt: j.OpenedAt, EndedAt: j.EndedAt,
	}
	asked := j.Granted + j.Refused
	d.Matched = max(j.Expected, asked)
	d.Left = d.Matched - asked
	if j.Stop != nil {
		d.State, d.StoppedBy = jobStopping, j.Stop.By
	}
	switch {
	case j.EndedAt != 0 && j.Stop != nil:
		d.State = jobStopped
	case j.EndedAt != 0:
		d.State, d.Matched, d.Left = jobDone, asked, 0
	}
	return d
}

// JobBody is the body of the call that opens a job.
type JobBody struct {
	ID     string           `json:"id,omitempty" doc:"The same ID with the same content starts no second job. Generated if absent"`
	Verb   events.Verb      `json:"verb" enum:"cancel,pause,resume,retry,skip,complete,fail,terminate,signal,rerun"`
	Args   map[string]any   `json:"args,omitempty" doc:"The members of the call for the verb, such as step"`
	Filter events.JobFilter `json:"filter" doc:"As the parameters of GET /v1/tasks. An empty one must say all"`
	Reason string           `json:"reason,omitempty" doc:"For the history of each task"`
	By     string           `json:"by,omitempty" doc:"Who opens the job, for the record"`
	Rate   string           `json:"rate,omitempty" doc:"The most requests in a given time; absent: no limit" example:"100/s"`
	Limit  int              `json:"limit,omitempty" doc:"Refuse the job if more tasks match; absent: no limit"`
	DryRun bool             `json:"dry_run,omitempty" doc:"Only count the tasks that match"`
}

// JobCount is what a dry run answers.
type JobCount struct {
	Matched  int            `json:"matched"`
	More     bool           `json:"more,omitzero" doc:"Counting took too long: at least that many match"`
	ByState  map[string]int `json:"by_state" doc:"How many have each state"`
	Examples []JobExample   `json:"examples" nullable:"false" doc:"The ten that were submitted last"`
}

// JobExample is a task that matches.
type JobExample struct {
	Task     string `json:"task"`
	Workflow string `json:"workflow"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
}

// JobResult is what became of the request to one task.
type JobResult struct {
	Task   string `json:"task"`
	Result string `json:"result" enum:"granted,refused"`
	Reason string `json:"reason,omitempty" doc:"Why it was refused"`
}
