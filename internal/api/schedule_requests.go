package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// ScheduleBody is the body of a request about a schedule.
type ScheduleBody struct {
	Reason string `json:"reason,omitempty" doc:"Why, for the record"`
	By     string `json:"by,omitempty" doc:"Who asks, for the record"`
}

// BackfillBody is the body of a backfill.
type BackfillBody struct {
	ScheduleBody
	Since   events.Instant `json:"since" format:"date-time" doc:"The first due time, or an instant before it"`
	Until   events.Instant `json:"until" format:"date-time" doc:"The last due time, or an instant after it; not in the future"`
	Overlap events.Overlap `json:"overlap,omitempty" enum:"skip,queue_one,allow" doc:"Instead of that of the schedule; absent: allow, so that all tasks start at once"`
}

// ScheduleRequestInput is a request about a schedule.
type ScheduleRequestInput struct {
	SchedulePath
	Wait string `query:"wait" doc:"Return when the request has been judged, or after this time, at most 60s" example:"5s"`
	Key  string `header:"Idempotency-Key" doc:"The request's ID: the same one again changes nothing. Generated if absent"`
}

// ScheduleReceiptAnswer is a receipt with its status.
type ScheduleReceiptAnswer struct {
	Status int
	Body   ScheduleReceipt
}

// scheduleVerb describes the call for a verb of schedules.
type scheduleVerb struct {
	name, kind, summary, description string
	body                             described
}

func scheduleVerbs() []scheduleVerb {
	reason := func(text string) described {
		return described{scheduleBody, map[string]any{"reason": text, "by": "anna"}, settingsBytes}
	}
	return []scheduleVerb{
		{
			"pause", events.TypeSchedulePause, "Pause a schedule", "No due time leads to a task until it is resumed. Its running tasks go on.",
			reason("the report is wrong"),
		},
		{
			"resume", events.TypeScheduleResume, "Resume a schedule", "It goes on with the next due time. Those in between lead to no task: backfill makes up for them.",
			reason("the report is right again"),
		},
		{
			"trigger", events.TypeScheduleTrigger, "Start a task of a schedule now",
			"Its due time is now. That is possible while the schedule is paused, and refused while a task has not ended, unless overlap lets it start.",
			reason("the report was lost"),
		},
		{
			"backfill", events.TypeScheduleTrigger, "Start the tasks of past due times",
			fmt.Sprintf("Up to %d due times. The answer says which led to a task now, and which had before: to do one of those again, submit its input with another ID.", maxDues),
			described{backfillBody, map[string]any{"since": "2026-11-20T00:00:00Z", "until": "2026-11-25T00:00:00Z", "reason": "the database was down"}, settingsBytes},
		},
	}
}

func (s *schedules) registerVerbs(api huma.API, tags []string) {
	for _, v := range scheduleVerbs() {
		path := schedulePath + "/" + v.name
		huma.Register(api, operation(api, huma.Operation{
			OperationID: v.name + "-schedule", Method: http.MethodPost, Path: path, Summary: v.summary, Tags: tags, DefaultStatus: http.StatusAccepted,
			Description: v.description + " 202 once the log holds the request. With wait the answer is 200 when it has been judged, 409 with the code refused if it is refused, and " +
				"202 if it has not been judged by then.",
		}), func(ctx context.Context, in *ScheduleRequestInput) (*ScheduleReceiptAnswer, error) {
			return s.request(ctx, v, in)
		})
		describeBody(api, path, http.MethodPost, v.body, contentJSON)
		api.OpenAPI().Paths[path].Post.RequestBody.Required = v.name == "backfill"
	}
}

func (s *schedules) request(ctx context.Context, v scheduleVerb, in *ScheduleRequestInput) (*ScheduleReceiptAnswer, error) {
	if err := checkKey(in.Key); err != nil {
		return nil, err
	}
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	x := exchangeOf(ctx)
	body, err := x.readSchedule(v.name == "backfill")
	if err != nil {
		return nil, err
	}
	body.By = x.by(body.By)
	known, err := s.find(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	if in.Key == "" {
		in.Key = newID()
	}
	list, err := s.asked(ctx, v, in, &known, body)
	if err != nil {
		return nil, err
	}
	s.awaitAdopted(ctx, &known)
	partition := events.Home(events.ScheduleKey(in.Name), s.partitions)
	asked := asked{receipt: ScheduleReceipt{Request: in.Key, Schedule: in.Name}, partition: partition, list: list, offsets: make([]int64, len(list))}
	for i, q := range list {
		r, err := events.EncodeScheduleRequest(q, v.kind, events.Subject{ID: q.ID, Source: s.source, Time: events.At(s.now())})
		if err != nil {
			return nil, s.log.internal(ctx, "encode a request", err)
		}
		r.Topic, r.Partition = s.topic, partition
		if asked.offsets[i], err = s.producer.produce(ctx, r); err != nil {
			return nil, err
		}
	}
	if wait == nil || *wait == 0 || len(list) > 0 && unseen(ctx) {
		return &ScheduleReceiptAnswer{Status: http.StatusAccepted, Body: asked.receipt}, nil
	}
	return s.judged(ctx, v, &asked, *wait)
}

// asked is requests about a schedule that the log holds.
type asked struct {
	receipt   ScheduleReceipt
	partition int32
	list      []events.ScheduleRequest
	offsets   []int64
}

// asked returns the requests of a call: one, or one for each due time of a backfill.
func (s *schedules) asked(ctx context.Context, v scheduleVerb, in *ScheduleRequestInput, known *Schedule, body BackfillBody) ([]events.ScheduleRequest, error) {
	now := events.At(s.now())
	one := events.ScheduleRequest{ID: in.Key, Schedule: in.Name, Reason: body.Reason, By: body.By}
	if v.name != "backfill" {
		if v.name == "trigger" {
			one.Due = now
		}
		return []events.ScheduleRequest{one}, nil
	}
	if body.Until > now {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The schedule cannot be backfilled like this.", ProblemPlace{Pointer: "/until", Message: "is in the future"})
	}
	dues, err := s.schedules.Dues(&known.ScheduleDefinition, body.Since-1, body.Until, maxDues+1)
	if err != nil {
		return nil, s.log.internal(ctx, "find the due times of a backfill", err)
	}
	if len(dues) > maxDues {
		return nil, problem(http.StatusConflict, codePrecondition, fmt.Sprintf("More than %d due times lie between since and until: ask for them in parts", maxDues))
	}
	list := make([]events.ScheduleRequest, 0, len(dues))
	for i, due := range dues {
		q := one
		q.ID, q.Due, q.Overlap = fmt.Sprintf("%s/%d", events.Clip(one.ID, events.MaxTaskID-4), i), due, body.Overlap
		if q.Overlap == "" {
			q.Overlap = events.OverlapAllow
		}
		list = append(list, q)
	}
	return list, nil
}

// awaitAdopted waits until the home partition of a schedule has taken it over, but not for long: a request right after an apply is then judged
// by what was applied.
func (s *schedules) awaitAdopted(ctx context.Context, known *Schedule) {
	if unseen(ctx) {
		return
	}
	waiting, cancel := s.life.until(ctx)
	defer cancel()
	waiting, done := context.WithTimeout(waiting, catchUpTimeout)
	defer done()
	changes, end := s.tasks.WatchTask(events.ScheduleKey(known.Schedule), nil)
	defer end()
	for {
		x, err := s.schedules.ScheduleState(ctx, known.Schedule)
		if err != nil || x != nil && x.Offset >= known.Offset {
			return
		}
		select {
		case <-changes:
		case <-waiting.Done():
			return
		}
	}
}

// judged waits until the requests have been judged, or the time is up, and says what became of them.
func (s *schedules) judged(ctx context.Context, v scheduleVerb, a *asked, wait time.Duration) (*ScheduleReceiptAnswer, error) {
	waiting, cancel := s.life.until(ctx)
	defer cancel()
	bounded, done := context.WithTimeout(waiting, wait)
	defer done()
	if n := len(a.offsets); n > 0 {
		if err := s.inputs.WaitPassed(bounded, events.Reports, a.partition, slices.Max(a.offsets)); err != nil {
			if bounded.Err() != nil {
				return &ScheduleReceiptAnswer{Status: http.StatusAccepted, Body: a.receipt}, nil
			}
			return nil, s.log.internal(ctx, "wait for a request", err)
		}
	}
	x, err := s.schedules.ScheduleState(ctx, a.receipt.Schedule)
	if err != nil {
		return nil, s.log.internal(ctx, "read a schedule", err)
	}
	for i := range a.list {
		rejected, err := s.rejections.Rejection(ctx, events.Reports, a.partition, a.offsets[i])
		if err != nil {
			return nil, s.log.internal(ctx, "look up a rejection", err)
		}
		switch {
		case rejected != nil && v.name != "backfill":
			return nil, refusedProblem(rejected.Detail, "")
		case rejected != nil:
			a.receipt.Refused = append(a.receipt.Refused, RefusedDue{a.list[i].Due, rejected.Detail})
		case x != nil:
			a.receipt.outcome(x, &a.list[i])
		}
	}
	a.receipt.Result = resultGranted
	return &ScheduleReceiptAnswer{Status: http.StatusOK, Body: a.receipt}, nil
}

// outcome adds what became of a trigger that was not refused.
func (r *ScheduleReceipt) outcome(x *events.Schedule, q *events.ScheduleRequest) {
	if q.Due == 0 {
		return
	}
	if x.Queued == q.Due {
		r.Queued = append(r.Queued, q.Due)
		return
	}
	for _, f := range x.Fires {
		switch {
		case f.Request == q.ID:
			r.Fired = append(r.Fired, fireDocument(f))
			return
		case f.Due == q.Due:
			r.Already = append(r.Already, fireDocument(f))
			return
		}
	}
}

// readSchedule reads the body of a request about a schedule, which is optional unless it is a backfill.
func (x exchange) readSchedule(backfill bool) (body BackfillBody, err error) {
	data, err := x.readBody(settingsBytes, "a request")
	if err != nil || !backfill && len(bytes.TrimSpace(data)) == 0 {
		return body, err
	}
	if err := x.acceptsJSON(); err != nil {
		return body, err
	}
	known := []string{"reason", "by"}
	if backfill {
		known = append(known, "since", "until", "overlap")
	}
	var faults []ProblemPlace
	fault := func(name, message string) {
		faults = append(faults, ProblemPlace{Pointer: "/" + name, Message: message})
	}
	err = x.readMembers(data, known, func(name string, raw json.RawMessage) {
		switch {
		case name == "reason" && (json.Unmarshal(raw, &body.Reason) != nil || len(body.Reason) > maxReason):
			fault(name, fmt.Sprintf("is not a text of at most %d bytes", maxReason))
		case name == "by" && (json.Unmarshal(raw, &body.By) != nil || len(body.By) > events.MaxTaskID):
			fault(name, fmt.Sprintf("is not a text of at most %d bytes", events.MaxTaskID))
		case name == "since" && json.Unmarshal(raw, &body.Since) != nil, name == "until" && json.Unmarshal(raw, &body.Until) != nil:
			fault(name, "is not an instant such as 2026-12-01T00:00:00Z")
		case name == "overlap" && (json.Unmarshal(raw, &body.Overlap) != nil || !slices.Contains(events.Overlaps(), body.Overlap) || body.Overlap == events.OverlapCancel):
			fault(name, "is not one of skip, queue_one, allow")
		}
	})
	if err == nil && backfill && len(faults) == 0 {
		if body.Since == 0 || body.Until == 0 {
			fault("", "has no since or no until: name the first and the last due time")
		} else if body.Until < body.Since {
			fault("until", "is before since")
		}
	}
	if err == nil && len(faults) > 0 {
		slices.SortFunc(faults, func(a, b ProblemPlace) int { return bytes.Compare([]byte(a.Pointer), []byte(b.Pointer)) })
		err = problem(http.StatusUnprocessableEntity, codeInvalid, "The request cannot be used; nothing is changed.", faults...)
	}
	return body, err
}
