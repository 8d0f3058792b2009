package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// limitRequests passes requests about limits to the log.
type limitRequests struct {
	tasks      Tasks
	named      NamedLimits
	workflows  Workflows
	inputs     Inputs
	rejections Rejections
	producer   *producer
	// topic and source go into each request.
	topic, source string
	partitions    int32
	now           func() time.Time
	life          lifetime
	log           logger
}

// LimitRequestInput is a request about a limit.
type LimitRequestInput struct {
	LimitPath
	Wait string `query:"wait" doc:"Return when the request has been judged, or after this time, at most 60s" example:"5s"`
	Key  string `header:"Idempotency-Key" doc:"The request's ID. Generated if absent"`
}

// LimitReceipt says what became of a request about a limit.
type LimitReceipt struct {
	Request string         `json:"request" doc:"The ID of the request"`
	Limit   string         `json:"limit"`
	Result  string         `json:"result,omitempty" enum:"granted" doc:"Absent: it has not been judged yet"`
	Paused  *events.Paused `json:"paused,omitempty" doc:"Who paused the limit, since when, and why; absent if it is not paused, or the request has not been judged"`
}

// LimitReceiptAnswer is a receipt with its status.
type LimitReceiptAnswer struct {
	Status int
	Body   LimitReceipt
}

func (s *limitRequests) register(api huma.API) {
	for _, v := range []struct{ name, kind, summary, description, reason string }{
		{
			"pause", events.TypeLimitPause, "Pause a limit of concurrency",
			"No task gets a permit until it is resumed; those that have one go on. A limit may be paused before any task needs it.", "the bank is closed",
		},
		{"resume", events.TypeLimitResume, "Resume a paused limit", "What waited for it gets the permits that are free.", "the bank is open"},
	} {
		path := limitPath + "/" + v.name
		huma.Register(api, operation(api, huma.Operation{
			OperationID: v.name + "-limit", Method: http.MethodPost, Path: path, Summary: v.summary, Tags: []string{"limits"}, DefaultStatus: http.StatusAccepted,
			Description: v.description + " 202 once the log holds the request. With wait the answer is 200 when it has been judged, and 202 if it has not been judged by then.",
		}), func(ctx context.Context, in *LimitRequestInput) (*LimitReceiptAnswer, error) {
			return s.request(ctx, v.kind, in)
		})
		describeBody(api, path, http.MethodPost, described{scheduleBody, map[string]any{"reason": v.reason, "by": "anna"}, settingsBytes}, contentJSON)
		api.OpenAPI().Paths[path].Post.RequestBody.Required = false
	}
}

func (s *limitRequests) request(ctx context.Context, kind string, in *LimitRequestInput) (*LimitReceiptAnswer, error) {
	if err := checkKey(in.Key); err != nil {
		return nil, err
	}
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	x := exchangeOf(ctx)
	body, err := x.readSchedule(false)
	if err != nil {
		return nil, err
	}
	body.By = x.by(body.By)
	if err := s.find(ctx, in.Name); err != nil {
		return nil, err
	}
	if in.Key == "" {
		in.Key = newID()
	}
	key := limitKey(in.Name)
	q := events.LimitRequest{ID: in.Key, Limit: key, Reason: body.Reason, By: body.By}
	r, err := events.EncodeLimitRequest(q, kind, events.Subject{ID: in.Key, Source: s.source, Time: events.At(s.now())})
	if err != nil {
		return nil, s.log.internal(ctx, "encode a request", err)
	}
	r.Topic, r.Partition = s.topic, events.Home(key, s.partitions)
	offset, err := s.producer.produce(ctx, r)
	if err != nil {
		return nil, err
	}
	out := &LimitReceiptAnswer{Status: http.StatusAccepted, Body: LimitReceipt{Request: in.Key, Limit: in.Name}}
	if wait == nil || *wait == 0 || unseen(ctx) {
		return out, nil
	}
	return out, s.judged(ctx, out, offset, *wait)
}

// find checks that a limit can have that name: some task knows it, or its workflow exists.
func (s *limitRequests) find(ctx context.Context, name string) error {
	if err := events.CheckLimit(limitKey(name)); err != nil {
		return problem(http.StatusNotFound, codeNotFound, fmt.Sprintf("%q is not the name of a limit.", events.Clip(name, maxReason)))
	}
	if l, err := s.tasks.Limit(ctx, limitKey(name)); err != nil {
		return s.log.internal(ctx, "read a limit", err)
	} else if l != nil {
		return nil
	}
	workflow, _, ofTasks := strings.Cut(name, "/")
	if !ofTasks {
		all, err := s.named.NamedLimits(ctx)
		if err != nil {
			return notRead(ctx, s.log, "list limits", err)
		}
		if _, ok := all[name]; ok {
			return nil
		}
		return problem(http.StatusNotFound, codeNotFound, fmt.Sprintf("There is no limit %q.", name))
	}
	w, err := s.workflows.Workflow(ctx, workflow, 0)
	switch {
	case err != nil:
		return s.log.internal(ctx, "read a workflow", err)
	case w == nil:
		return problem(http.StatusNotFound, codeNotFound, fmt.Sprintf("No task needs a permit of %q, and there is no workflow %q.", name, workflow))
	}
	return nil
}

// judged waits until the request at that offset has been judged, or the time is up, and says what became of it.
func (s *limitRequests) judged(ctx context.Context, out *LimitReceiptAnswer, offset int64, wait time.Duration) error {
	waiting, cancel := s.life.until(ctx)
	defer cancel()
	bounded, done := context.WithTimeout(waiting, wait)
	defer done()
	key := limitKey(out.Body.Limit)
	partition := events.Home(key, s.partitions)
	if err := s.inputs.WaitPassed(bounded, events.Reports, partition, offset); err != nil {
		if bounded.Err() != nil {
			return nil
		}
		return s.log.internal(ctx, "wait for a request", err)
	}
	rejected, err := s.rejections.Rejection(ctx, events.Reports, partition, offset)
	switch {
	case err != nil:
		return s.log.internal(ctx, "look up a rejection", err)
	case rejected != nil:
		return refusedProblem(rejected.Detail, "")
	}
	l, err := s.tasks.Limit(ctx, key)
	if err != nil {
		return s.log.internal(ctx, "read a limit", err)
	}
	if out.Status, out.Body.Result = http.StatusOK, resultGranted; l != nil {
		out.Body.Paused = l.Paused
	}
	return nil
}
