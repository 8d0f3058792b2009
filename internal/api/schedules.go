package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

const (
	schedulesPath = "/v1/schedules"
	schedulePath  = schedulesPath + "/{name}"
	// shownDues is how many of the next due times a schedule shows, and maxDues how many a list of them has.
	shownDues = 5
	maxDues   = 100
)

// schedules answers for the schedules, and passes requests about them to the log.
type schedules struct {
	schedules  Schedules
	tasks      Tasks
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

// SchedulePath names a schedule.
type SchedulePath struct {
	Name string `path:"name" doc:"The schedule's name"`
}

// ScheduleAnswer is a schedule.
type ScheduleAnswer struct{ Body ScheduleDocument }

// SchedulesAnswer is all schedules.
type SchedulesAnswer struct {
	Body struct {
		Schedules []ScheduleDocument `json:"schedules" nullable:"false" doc:"By name"`
	}
}

// FiresQuery asks for the due times of a schedule.
type FiresQuery struct {
	SchedulePath
	Until string `query:"until" doc:"The last future due time; absent: the next five" format:"date-time"`
}

// FiresAnswer is due times of a schedule.
type FiresAnswer struct {
	Body struct {
		Fires []ScheduleFire `json:"fires" nullable:"false" doc:"Those of the last hundred that led to a task, then up to a hundred future ones, the earliest first"`
	}
}

func (s *schedules) register(api huma.API) {
	tags := []string{"schedules"}
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "list-schedules", Method: http.MethodGet, Path: schedulesPath, Summary: "List schedules", Tags: tags,
		Description: "What the partition of a schedule knows is as of this node: it lags by moments, and is absent on a node that follows no partitions.",
	}), s.list)
	huma.Register(api, needsOwner(api, huma.Operation{
		OperationID: "get-schedule", Method: http.MethodGet, Path: schedulePath, Summary: "Read a schedule", Tags: tags,
	}), s.get)
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "apply-schedule", Method: http.MethodPut, Path: schedulePath, Summary: "Apply a schedule", Tags: tags,
		Description: "In YAML or JSON. It replaces the definition of a schedule with this name. Whether it is paused, which tasks run and what has fired stays.",
	}), s.put)
	example := map[string]any{
		"schedule": "daily-report", "workflow": "report", "cron": "0 2 * * MON-FRI", "time_zone": "Europe/Vienna", "overlap": "skip", "input": map[string]any{"day": "${ schedule.due_date }"},
	}
	describeBody(api, schedulePath, http.MethodPut, described{nil, example, events.MaxScheduleBytes}, contentJSON, "application/yaml")
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "delete-schedule", Method: http.MethodDelete, Path: schedulePath, Summary: "Delete a schedule", Tags: tags,
		Description: "Its tasks go on. What has fired is forgotten.",
	}), s.delete)
	huma.Register(api, needsOwner(api, huma.Operation{
		OperationID: "list-fires", Method: http.MethodGet, Path: schedulePath + "/fires", Summary: "List due times of a schedule, past and future", Tags: tags,
	}), s.fires)
	s.registerVerbs(api, tags)
}

func (s *schedules) failed(ctx context.Context, act string, err error) error {
	if errors.Is(err, ErrNoAnswer) {
		return problem(http.StatusServiceUnavailable, codeUnavailable, "The Kafka brokers do not answer at the moment. Ask again: a repeat is safe.").retryAfter(time.Second)
	}
	return s.log.internal(ctx, act, err)
}

// find returns a schedule as it was applied, or the problem that it does not exist.
func (s *schedules) find(ctx context.Context, name string) (Schedule, error) {
	all, err := s.schedules.Schedules(ctx)
	if err != nil {
		return Schedule{}, s.failed(ctx, "list schedules", err)
	}
	known, ok := all[name]
	if ok {
		return known, nil
	}
	text := fmt.Sprintf("There is no schedule %q", events.Clip(name, maxReason))
	if len(all) > 0 {
		text += "; " + events.Suggest(name, slices.Sorted(maps.Keys(all)))
	}
	return known, problem(http.StatusNotFound, codeNotFound, text)
}

// document returns a schedule and what this node knows of its state.
func (s *schedules) document(ctx context.Context, known *Schedule) (d ScheduleDocument, err error) {
	x, err := s.schedules.ScheduleState(ctx, known.Schedule)
	if err != nil {
		return d, s.log.internal(ctx, "read a schedule", err)
	}
	d = scheduleDocument(known, x)
	if d.Paused != nil {
		return d, nil
	}
	next, err := s.upcoming(ctx, known, x, 0, shownDues)
	if err == nil && len(next) > 0 {
		d.Next = next
	}
	return d, err
}

// upcoming returns the next due times, up to an instant, or until limit if that is zero.
func (s *schedules) upcoming(ctx context.Context, known *Schedule, x *events.Schedule, until events.Instant, limit int) ([]events.Instant, error) {
	after := events.At(s.now())
	if x != nil && x.Next > 0 && x.Offset == known.Offset {
		after = x.Next - 1
	}
	list, err := s.schedules.Dues(&known.ScheduleDefinition, after, until, limit)
	if err != nil {
		return nil, s.log.internal(ctx, "find the next due times", err)
	}
	return list, nil
}

func (s *schedules) list(ctx context.Context, _ *struct{}) (*SchedulesAnswer, error) {
	all, err := s.schedules.Schedules(ctx)
	if err != nil {
		return nil, s.failed(ctx, "list schedules", err)
	}
	out := &SchedulesAnswer{}
	out.Body.Schedules = make([]ScheduleDocument, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		known := all[name]
		d, err := s.document(ctx, &known)
		if err != nil {
			return nil, err
		}
		out.Body.Schedules = append(out.Body.Schedules, d)
	}
	return out, nil
}

func (s *schedules) get(ctx context.Context, in *SchedulePath) (*ScheduleAnswer, error) {
	known, err := s.find(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	d, err := s.document(ctx, &known)
	return &ScheduleAnswer{d}, err
}

func (s *schedules) put(ctx context.Context, in *SchedulePath) (*ScheduleAnswer, error) {
	source, err := exchangeOf(ctx).readBody(events.MaxScheduleBytes, "a schedule")
	if err != nil {
		return nil, err
	}
	known, changed, faults, err := s.schedules.ApplySchedule(ctx, Draft{Name: in.Name, Source: source})
	if err != nil {
		return nil, s.failed(ctx, "apply a schedule", err)
	}
	if len(faults) > 0 {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The schedule cannot be applied like this; nothing is changed.", faultPlaces(faults, "")...)
	}
	d, err := s.document(ctx, &known)
	d.Changed = changed
	return &ScheduleAnswer{d}, err
}

func (s *schedules) delete(ctx context.Context, in *SchedulePath) (*ScheduleAnswer, error) {
	known, err := s.find(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	d, err := s.document(ctx, &known)
	if err != nil {
		return nil, err
	}
	if d.Changed, err = s.schedules.DeleteSchedule(ctx, in.Name); err != nil {
		return nil, s.failed(ctx, "delete a schedule", err)
	}
	d.Next, d.Pending = []events.Instant{}, false
	return &ScheduleAnswer{d}, nil
}

func (s *schedules) fires(ctx context.Context, in *FiresQuery) (*FiresAnswer, error) {
	until, limit := events.Instant(0), shownDues
	if in.Until != "" {
		t, err := time.Parse(time.RFC3339, in.Until)
		if err != nil {
			return nil, parameterProblem("until", "is not an instant such as 2026-12-01T00:00:00Z")
		}
		until, limit = events.At(t), maxDues
	}
	known, err := s.find(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	x, err := s.schedules.ScheduleState(ctx, in.Name)
	if err != nil {
		return nil, s.log.internal(ctx, "read a schedule", err)
	}
	out := &FiresAnswer{}
	out.Body.Fires = []ScheduleFire{}
	if x != nil {
		for _, f := range x.Fires {
			out.Body.Fires = append(out.Body.Fires, fireDocument(f))
		}
	}
	slices.SortFunc(out.Body.Fires, func(a, b ScheduleFire) int { return cmp.Compare(a.Due, b.Due) })
	next, err := s.upcoming(ctx, &known, x, until, limit)
	for _, due := range next {
		out.Body.Fires = append(out.Body.Fires, ScheduleFire{Due: due, Task: events.ScheduleTask(in.Name, due)})
	}
	return out, err
}

// The bodies of the verbs.
var (
	scheduleBody = reflect.TypeFor[ScheduleBody]()
	backfillBody = reflect.TypeFor[BackfillBody]()
)
