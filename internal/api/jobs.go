package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

const (
	jobsPath = "/v1/jobs"
	// jobBytes bounds the body of a job: its record adds the texts that JSON escapes.
	jobBytes = events.MaxJobBytes / 2
)

// jobs opens, shows and stops jobs.
type jobs struct {
	jobs  Jobs
	lists *lists
	// keys seals the arguments of jobs; nil: they stay in clear text.
	keys Keys
	now  func() time.Time
	log  logger
}

// JobPath names a job.
type JobPath struct {
	ID string `path:"id" doc:"The job's ID"`
}

// JobAnswer is a job.
type JobAnswer struct {
	Status int
	Body   JobDocument
}

// OpenJobAnswer is the job that was opened, or the answer of a dry run.
type OpenJobAnswer struct {
	Status int
	Body   any
}

// JobsAnswer is the jobs that are remembered.
type JobsAnswer struct {
	Body struct {
		Jobs []JobDocument `json:"jobs" nullable:"false" doc:"The newest first"`
	}
}

// JobStopBody is the body of the call that stops a job.
type JobStopBody struct {
	Reason string `json:"reason,omitempty" doc:"Why, for the record"`
	By     string `json:"by,omitempty" doc:"Who stops it, for the record"`
}

func (s *jobs) register(api huma.API) {
	tags := []string{"jobs"}
	s.registerOpen(api, tags)
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "list-jobs", Method: http.MethodGet, Path: jobsPath, Summary: "List jobs", Tags: tags,
		Description: "A job is remembered for seven days after its end; of more than 200 jobs, those that ended first are forgotten earlier.",
	}), s.list)
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "get-job", Method: http.MethodGet, Path: jobsPath + "/{id}", Summary: "Read a job", Tags: tags,
	}), s.get)
	huma.Register(api, needsOwner(api, huma.Operation{
		OperationID: "list-job-results", Method: http.MethodGet, Path: jobsPath + "/{id}/results", Summary: "What became of each task of a job", Tags: tags,
		Description: "The tasks remember the requests of a job. So a page examines the tasks that the filter matches in any state, and may be short or empty although a next page follows. " +
			"A task that had ended does not remember that it refused: the job keeps the first 20 such refusals of each partition, and counts all of them.",
	}), s.results)
	path := jobsPath + "/{id}/stop"
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "stop-job", Method: http.MethodPost, Path: path, Summary: "Stop a job", Tags: tags,
		Description: "The job asks no further task. What was granted stays. A stopped job cannot go on: open another one with the same filter.",
	}), s.stop)
	optionalBody[JobStopBody](api, path, map[string]any{"reason": "the wrong region", "by": "anna"})
}

func (s *jobs) registerOpen(api huma.API, tags []string) {
	op := operation(api, huma.Operation{
		OperationID: "open-job", Method: http.MethodPost, Path: jobsPath, Summary: "Make a request for all tasks that match", Tags: tags, DefaultStatus: http.StatusAccepted,
		Description: "The job makes a request with the ID job/<id> for each task that matches the filter and was submitted before the job was opened. 202 once the job is durable; " +
			"the owners of the partitions then carry it out, also after restarts and take-overs. The same ID with the same content answers 200, with other content 409. " +
			"With dry_run nothing is opened, and the answer says how many tasks match. " +
			"The caller's right is checked only when the job is opened: if the token is revoked later, the job goes on under the recorded name until somebody stops it.",
	})
	huma.Register(api, op, s.open)
	example := map[string]any{
		"id": "retry-1", "verb": "retry", "filter": map[string]any{"state": []string{"error"}, "workflow": "order"}, "reason": "the bank is back", "by": "anna", "rate": "100/s",
	}
	describeBody(api, jobsPath, http.MethodPost, described{reflect.TypeFor[JobBody](), example, jobBytes}, contentJSON)
	schemas, answers := api.OpenAPI().Components.Schemas, api.OpenAPI().Paths[jobsPath].Post.Responses
	body := func(t reflect.Type) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{contentJSON: {Schema: schemas.Schema(t, true, t.Name())}}
	}
	answers["202"].Content = body(reflect.TypeFor[JobDocument]())
	either := &huma.Schema{OneOf: []*huma.Schema{
		schemas.Schema(reflect.TypeFor[JobDocument](), true, "JobDocument"), schemas.Schema(reflect.TypeFor[JobCount](), true, "JobCount"),
	}}
	answers["200"] = &huma.Response{Description: "The same job was opened before; or the answer of a dry run", Content: map[string]*huma.MediaType{contentJSON: {Schema: either}}}
}

func (s *jobs) open(ctx context.Context, _ *struct{}) (*OpenJobAnswer, error) {
	x := exchangeOf(ctx)
	job, dry, err := x.readJob()
	if err != nil {
		return nil, err
	}
	job.By = x.by(job.By)
	if dry {
		count, err := s.count(ctx, &job)
		return &OpenJobAnswer{Status: http.StatusOK, Body: count}, err
	}
	job.ID = cmp.Or(job.ID, newID())
	known, err := s.jobs.Jobs(ctx)
	if err != nil {
		return nil, s.failed(ctx, "list jobs", job.ID, err)
	}
	if _, again := known[job.ID]; !again {
		if job.Expected, err = s.expected(ctx, &job); err != nil {
			return nil, err
		}
	}
	if job.Args, err = sealArgs(ctx, s.keys, job.Args); err != nil {
		return nil, s.log.internal(ctx, "seal the arguments of a job", err)
	}
	now, opened, err := s.jobs.OpenJob(ctx, job)
	if err != nil {
		return nil, s.failed(ctx, "open a job", job.ID, err)
	}
	d := jobDocument(&now)
	d.Changed = opened
	if !opened {
		return &OpenJobAnswer{Status: http.StatusOK, Body: d}, nil
	}
	return &OpenJobAnswer{Status: http.StatusAccepted, Body: d}, nil
}

// expected counts the tasks of a job, and refuses the job if they are more than its limit. Without a limit, the count is only for those who
// watch the job: if the tasks cannot be counted, it is opened all the same.
func (s *jobs) expected(ctx context.Context, job *events.Job) (int, error) {
	count, err := s.count(ctx, job)
	switch {
	case job.Limit == 0 && ctx.Err() == nil && (err != nil || count.More):
		return 0, nil
	case err != nil:
		return 0, err
	case job.Limit > 0 && count.Matched > job.Limit:
		number := fmt.Sprint(count.Matched)
		if count.More {
			number = "At least " + number
		}
		return 0, problem(http.StatusConflict, codePrecondition, fmt.Sprintf("%s tasks match, and the limit of the job is %d. Narrow its filter, or raise its limit.", number, job.Limit))
	case job.Limit > 0 && count.More:
		return 0, problem(http.StatusConflict, codePrecondition, fmt.Sprintf(
			"The tasks could not be counted in %s, so the limit cannot be checked: at least %d match. Narrow the filter of the job, or leave its limit out.", events.Duration(countWithin), count.Matched))
	}
	return count.Matched, nil
}

func (s *jobs) failed(ctx context.Context, act, id string, err error) error {
	switch {
	case errors.Is(err, ErrOtherJob):
		return problem(http.StatusConflict, codeConflict, fmt.Sprintf("Job %q asks for something else. Choose another ID, or leave it out.", id))
	case errors.Is(err, ErrTooManyJobs):
		return problem(http.StatusConflict, codePrecondition, "As many jobs are open as a namespace can have. Wait until one has ended, or stop one.")
	case errors.Is(err, ErrNoJob):
		return noJob(id)
	case errors.Is(err, ErrNoAnswer):
		return problem(http.StatusServiceUnavailable, codeUnavailable,
			fmt.Sprintf("The Kafka brokers do not answer at the moment. Ask again; to open the job, with the ID %q: a repeat is safe.", id)).retryAfter(time.Second)
	}
	return s.log.internal(ctx, act, err)
}

func noJob(id string) *Problem {
	return problem(http.StatusNotFound, codeNotFound, fmt.Sprintf("No job has the ID %q. A job is remembered for seven days after its end.", id))
}

// find returns a job, or the problem that it is not known.
func (s *jobs) find(ctx context.Context, id string) (Job, error) {
	all, err := s.jobs.Jobs(ctx)
	if err != nil {
		return Job{}, s.failed(ctx, "list jobs", id, err)
	}
	job, ok := all[id]
	if !ok {
		return Job{}, noJob(id)
	}
	return job, nil
}

func (s *jobs) list(ctx context.Context, _ *struct{}) (*JobsAnswer, error) {
	all, err := s.jobs.Jobs(ctx)
	if err != nil {
		return nil, s.failed(ctx, "list jobs", "", err)
	}
	out := &JobsAnswer{}
	out.Body.Jobs = make([]JobDocument, 0, len(all))
	for _, j := range all {
		out.Body.Jobs = append(out.Body.Jobs, jobDocument(&j))
	}
	slices.SortFunc(out.Body.Jobs, func(a, b JobDocument) int {
		return cmp.Or(cmp.Compare(b.StartedAt, a.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

func (s *jobs) get(ctx context.Context, in *JobPath) (*JobAnswer, error) {
	job, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &JobAnswer{Status: http.StatusOK, Body: jobDocument(&job)}, nil
}

func (s *jobs) stop(ctx context.Context, in *JobPath) (*JobAnswer, error) {
	x := exchangeOf(ctx)
	var body JobStopBody
	if err := x.readTexts("a stop", "The job goes on.", map[string]memberText{"reason": {&body.Reason, maxReason}, "by": {&body.By, events.MaxTaskID}}); err != nil {
		return nil, err
	}
	now, changed, err := s.jobs.StopJob(ctx, events.JobStop{Job: in.ID, By: x.by(body.By), Reason: body.Reason})
	if err != nil {
		return nil, s.failed(ctx, "stop a job", in.ID, err)
	}
	d := jobDocument(&now)
	if d.Changed = changed; !changed && d.State == jobDone {
		return nil, problem(http.StatusConflict, codePrecondition, "The job has asked all its tasks already.")
	}
	return &JobAnswer{Status: http.StatusOK, Body: d}, nil
}
