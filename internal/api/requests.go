package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/traceparent"
	"github.com/sagalog/sagalog/supervisor"
)

// The bounds of a request.
const (
	// requestBytes has room for a payload of the largest size, a step and a reason.
	requestBytes   = events.MaxPayloadBytes + 16<<10
	maxReason      = 1024
	catchUpTimeout = 5 * time.Second
)

// requests takes cancels and retries of tasks.
type requests struct {
	// keys seals what comes with requests; nil: it stays in clear.
	keys        Keys
	tasks       Tasks
	inputs      Inputs
	rejections  Rejections
	definitions Definitions
	producer    *producer
	// topic and source go into each record.
	topic, source string
	partitions    int32
	now           func() time.Time
	life          lifetime
	log           logger
}

// RequestInput is a request about a task.
type RequestInput struct {
	TaskPath
	Wait string `query:"wait" doc:"Return when the request has been judged, or after this time, at most 60s" example:"5s"`
	Key  string `header:"Idempotency-Key" doc:"The request's ID: the same one again changes nothing. Generated if absent"`
}

// CancelBody is the body of a cancel.
type CancelBody struct {
	Reason string `json:"reason,omitempty" doc:"For the history"`
}

// ReasonBody is the body of a request that needs no more than a reason.
type ReasonBody struct {
	Reason string `json:"reason,omitempty" doc:"For the history"`
}

// requestRoute describes the call for a verb.
type requestRoute struct {
	verb                 events.Verb
	summary, description string
	body                 reflect.Type
	example              map[string]any
}

// requestRoutes describe the calls for the verbs about whole tasks.
var requestRoutes = []requestRoute{
	{
		events.RequestCancel, "Cancel a task",
		"Every step that may have had an effect is undone. The request is refused past the point of no return, and if the task is parked because an undo failed: remove the cause, then retry the " +
			"task. 404 if no task with this ID was submitted: " +
			"only a cancel that is produced to a topic may come before its task.",
		reflect.TypeFor[CancelBody](), map[string]any{"reason": "the customer called"},
	},
	{
		events.RequestPause, "Pause a task",
		"Its running attempts finish, and nothing else starts. Meanwhile its deadline only raises an alert. A deadline that was still to come moves by the length of the pause. A cancel resumes the task.",
		reflect.TypeFor[ReasonBody](), map[string]any{"reason": "the drone service is being repaired"},
	},
	{
		events.RequestResume, "Resume a paused task", "The task continues where it was paused.",
		reflect.TypeFor[ReasonBody](), map[string]any{"reason": "the drone service is back"},
	},
	{
		events.RequestRetry, "Retry a parked task", "Every failed step starts again, or only the named one. A step that waits for its next attempt starts at once.",
		reflect.TypeFor[RetryBody](), map[string]any{"step": "drone", "reason": "the drone service is back"},
	},
	{
		events.RequestTerminate, "Terminate a task",
		"The task ends where it stands, and nothing is undone. The history names the steps that may have had an effect. The request is refused while an attempt runs.",
		reflect.TypeFor[ReasonBody](), map[string]any{"reason": "undone by hand"},
	},
	{
		events.RequestRerun, "Run a task once more",
		"A task that has ended or is parked runs once more. With from, only that step runs again, with the steps that need it and those that are not over. What these steps did is undone first. " +
			"Then a new run begins with new idempotency keys, so services see new calls. The new input has to fit the workflow, and must not change the undo of a step that does not run again; labels, " +
			"priority, fair_by and concurrency key stay. The request is refused while an attempt " +
			"of the task runs, and if the run would repeat a point of no return that may have had its effect.",
		reflect.TypeFor[RerunBody](), map[string]any{"from": "drone", "reason": "the address was wrong"},
	},
	{
		events.RequestSignal, "Send a signal to a task",
		"The first step that waits for a signal of this name takes it, now or later; each signal is taken once. A signal that comes before its task is held for 24 h. It is refused if no " +
			"step of the workflow waits for its name, if the payload does not fit the schema, or if the task is being undone.",
		reflect.TypeFor[SignalBody](), map[string]any{"signal": "approval", "payload": map[string]any{"decision": "yes", "by": "ada"}},
	},
}

// RequestReceipt is the answer to a request.
type RequestReceipt struct {
	ID        string `json:"id" doc:"The task's ID"`
	Partition int32  `json:"partition" doc:"The task's home partition"`
	Offset    *int64 `json:"offset,omitempty" doc:"Its offset in the input topic; absent if it was known before"`
	Token     string `json:"token" doc:"GET /v1/tasks/{id}?token= answers no older than this"`
	RequestOutcome
}

// RequestAnswer is a receipt with its status.
type RequestAnswer struct {
	Status int
	Body   RequestReceipt
}

func (s *requests) register(api huma.API) {
	s.registerOutcome(api)
	for _, o := range slices.Concat(requestRoutes, stepRoutes) {
		path := requestPath(o.verb)
		op := operation(api, huma.Operation{
			OperationID: string(o.verb) + "-task", Method: http.MethodPost, Path: path, Summary: o.summary, Tags: []string{"tasks"},
			DefaultStatus: http.StatusAccepted,
			Description: o.description + " 202 with a token once the log holds the request. With wait the answer is 200 if it is granted, 409 with the code refused, the " +
				"reason and the task's state if it is refused, and 202 if it has not been judged by then. A request that would change nothing is refused.",
		})
		huma.Register(api, op, func(ctx context.Context, in *RequestInput) (*RequestAnswer, error) {
			return s.request(ctx, o.verb, in)
		})
		describeBody(api, path, http.MethodPost, described{o.body, o.example, requestBytes}, contentJSON)
		api.OpenAPI().Paths[path].Post.RequestBody.Required = false
	}
}

func requestPath(v events.Verb) string { return "/v1/tasks/{id}/" + string(v) }

func (s *requests) request(ctx context.Context, verb events.Verb, in *RequestInput) (*RequestAnswer, error) {
	if err := checkID(in.ID); err != nil {
		return nil, err
	}
	if err := checkKey(in.Key); err != nil {
		return nil, err
	}
	x := exchangeOf(ctx)
	if err := x.ownKey(in.Key); err != nil {
		return nil, err
	}
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	q, err := x.readRequest(verb)
	if err != nil {
		return nil, err
	}
	q.ID, q.Task, q.By = in.Key, in.ID, x.by("")
	if q.ID == "" {
		q.ID = newID()
	}
	t, err := s.find(ctx, verb, in.ID)
	if err != nil {
		return nil, err
	}
	partition := events.Home(in.ID, s.partitions)
	if t != nil {
		if known, ok := t.Request(q.ID); ok {
			return judgedAnswer(requestReceipt(q, partition, -1), t, known)
		}
		if hopeless(t, &q) { // a rerun may be on its way
			if t, err = s.caughtUp(ctx, events.Reports, in.ID); err != nil {
				return nil, err
			}
		}
	}
	if t != nil {
		if err := s.possible(ctx, q, t); err != nil {
			return nil, err
		}
	}
	if err := s.seal(ctx, &q, t); err != nil {
		return nil, err
	}
	r, err := events.EncodeRequest(q, events.Subject{
		ID: q.ID, Source: s.source, Time: events.At(s.now()), Traceparent: traceparent.Or(x.r.Header.Get("traceparent")),
	})
	if err != nil {
		return nil, s.log.internal(ctx, "encode a request", err)
	}
	r.Topic, r.Partition = s.topic, partition
	offset, err := s.producer.produce(ctx, r)
	if err != nil {
		return nil, err
	}
	receipt := requestReceipt(q, partition, offset)
	if wait == nil || *wait == 0 {
		return &RequestAnswer{Status: http.StatusAccepted, Body: receipt}, nil
	}
	return s.awaitJudged(ctx, receipt, offset, *wait)
}

func requestReceipt(q events.Request, partition int32, offset int64) RequestReceipt {
	r := receipt(q.Task, token{events.Reports, partition, offset, q.ID})
	return RequestReceipt{r.ID, r.Partition, r.Offset, r.Token, RequestOutcome{Request: q.ID, Verb: q.Kind}}
}

func checkKey(key string) error {
	if key == "" {
		return nil
	}
	if events.CheckTaskID(key) != nil {
		return parameterProblem("Idempotency-Key", fmt.Sprintf("must have 1 to %d bytes of UTF-8 without control characters", events.MaxTaskID))
	}
	return nil
}

// ownKey refuses a key that a job or a schedule may use for its request: whoever may only submit could answer that request in advance.
func (x exchange) ownKey(key string) error {
	c, on := access.CallerOf(x.r.Context())
	if !on || c.Role.Includes(access.Operator) {
		return nil
	}
	_, err := events.ParseInstant(key[strings.LastIndex(key, "/")+1:])
	if err == nil || strings.HasPrefix(key, (&events.Job{}).RequestID()) {
		return parameterProblem("Idempotency-Key", "has the form of the keys of jobs and schedules, which needs the role operator")
	}
	return nil
}

// readRequest reads the body of a request, which is optional: the members of the verb, and the reason.
func (x exchange) readRequest(verb events.Verb) (events.Request, error) {
	q := events.Request{Kind: verb}
	data, err := x.readBody(requestBytes, "a request")
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return q, err
	}
	if err := x.acceptsJSON(); err != nil {
		return q, err
	}
	return x.requestMembers(verb, append([]string{"reason"}, verb.Members()...), data)
}

// requestMembers reads these members of a request.
func (x exchange) requestMembers(verb events.Verb, known []string, data []byte) (events.Request, error) {
	q := events.Request{Kind: verb}
	var faults []ProblemPlace
	err := x.readMembers(data, known, func(name string, raw json.RawMessage) {
		member, err := json.Marshal(map[string]json.RawMessage{name: raw})
		if err == nil {
			err = json.Unmarshal(member, &q)
		}
		switch {
		case err != nil:
			faults = append(faults, ProblemPlace{Pointer: "/" + name, Message: "is not " + wanted(err)})
		case len(q.Signal) > events.MaxTaskID:
			faults = append(faults, ProblemPlace{Pointer: "/signal", Message: fmt.Sprintf("is not a text of at most %d bytes", events.MaxTaskID)})
			q.Signal = ""
		case max(len(q.Step), len(q.From), len(q.Reason)) > maxReason:
			faults = append(faults, ProblemPlace{Pointer: "/" + name, Message: fmt.Sprintf("is not a text of at most %d bytes", maxReason)})
			q.Step, q.From, q.Reason = "", "", ""
		case name == "attempt" && q.Attempt < 1:
			faults = append(faults, ProblemPlace{Pointer: "/attempt", Message: "is less than 1; attempts count from 1"})
		case name == "operation" && q.Operation != events.Do && q.Operation != events.Undo:
			faults = append(faults, ProblemPlace{Pointer: "/operation", Message: "is not do or undo"})
		case name == "effect" && !slices.Contains(reportEffects, q.Effect):
			faults = append(faults, ProblemPlace{Pointer: "/effect", Message: "is not none, done_unknown or in_doubt"})
		case name == "error" && q.Error.Class != "" && !slices.Contains(failClasses, q.Error.Class):
			faults = append(faults, ProblemPlace{Pointer: "/error/class", Message: "is not retryable, permanent, internal or limit"})
		}
	})
	if err != nil {
		return q, err
	}
	if len(faults) > 0 {
		return q, problem(http.StatusUnprocessableEntity, codeInvalid, "The request cannot be used.", faults...)
	}
	return q, nil
}

// wanted says what a member should have been, by the error of its decoding.
func wanted(err error) string {
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		switch t.Type.Kind() {
		case reflect.String:
			return fmt.Sprintf("a text of at most %d bytes", maxReason)
		case reflect.Int:
			return "an integer"
		}
	}
	return "of the right type"
}

// readMembers calls read for each member of a JSON object, and refuses unknown ones by name.
func (x exchange) readMembers(data []byte, known []string, read func(name string, raw json.RawMessage)) error {
	if p := syntaxProblem(data); p != nil {
		return p
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || members == nil {
		return problem(http.StatusUnprocessableEntity, codeInvalid, "The body is not a JSON object.", ProblemPlace{Message: "is not an object"})
	}
	var faults []ProblemPlace
	for name, raw := range members {
		if !slices.Contains(known, name) {
			faults = append(faults, ProblemPlace{Pointer: "/" + name, Message: "is not a member; " + events.Suggest(name, known)})
			continue
		}
		if string(raw) == "null" {
			faults = append(faults, ProblemPlace{Pointer: "/" + name, Message: "is null; leave it out instead"})
			continue
		}
		read(name, raw)
	}
	if len(faults) > 0 {
		return problem(http.StatusUnprocessableEntity, codeInvalid, "The body has members that cannot be used.", faults...)
	}
	return nil
}

// find returns the task of a request. An unknown task may be in a submission that has not been judged yet, since a producer may
// cancel a task that it submitted a moment ago; so its partition first catches up. If that takes too long, or no node
// answers for the partition, find returns nil: the request goes to the log, where the owner holds it until the task is
// there. A signal may come a day before its task, and always goes there. Any other request for a task that was not submitted is refused:
// a person who mistypes an ID must see it, and a held cancel would look like success and then end as a dead letter that nobody reads.
func (s *requests) find(ctx context.Context, verb events.Verb, id string) (*events.Task, error) {
	if unseen(ctx) {
		return nil, nil
	}
	t, err := s.tasks.Task(ctx, id)
	if err != nil {
		return nil, s.log.internal(ctx, "look up a task", err)
	}
	if t != nil {
		return t, nil
	}
	t, err = s.caughtUp(ctx, events.Submissions, id)
	if p, ok := errors.AsType[*Problem](err); ok && p.Status == http.StatusNotFound && verb == events.RequestSignal {
		return nil, nil
	}
	return t, err
}

// caughtUp returns the task as of a moment after the call, nil if that takes too long.
func (s *requests) caughtUp(ctx context.Context, in events.Input, id string) (*events.Task, error) {
	waiting, cancel := s.life.until(ctx)
	defer cancel()
	waiting, done := context.WithTimeout(waiting, catchUpTimeout)
	defer done()
	err := s.inputs.CatchUp(waiting, in, events.Home(id, s.partitions))
	if waiting.Err() != nil && err != nil {
		return nil, nil
	}
	if err != nil {
		return nil, s.log.internal(ctx, "catch up with "+string(in), err)
	}
	return s.log.known(ctx, s.tasks, id)
}

// hopeless says whether nothing but a rerun can make the owner grant the request.
func hopeless(t *events.Task, q *events.Request) bool {
	_, no := supervisor.JudgeRequest(t, q)
	return no.Lasting
}

// possible refuses a request only if the owner certainly refuses it too: for a reason that nothing can change, so that it does not matter
// how old the projection is.
func (s *requests) possible(ctx context.Context, q events.Request, t *events.Task) error {
	if q.Step != "" && !t.State.Ended() {
		if err := s.knownStep(ctx, "step", q.Step, t); err != nil {
			return err
		}
	}
	if q.From != "" {
		if err := s.knownStep(ctx, "from", q.From, t); err != nil {
			return err
		}
	}
	if _, no := supervisor.JudgeRequest(t, &q); no.Lasting {
		return refusedProblem(no.Reason, t.State)
	}
	if q.Kind != events.RequestSignal {
		return nil
	}
	faults, err := s.definitions.CheckSignal(ctx, t, q.Signal, q.Payload)
	if err != nil {
		return s.log.internal(ctx, "check a signal", err)
	}
	if len(faults) > 0 {
		return problem(http.StatusUnprocessableEntity, codeInvalid, "No step of the task can take the signal.", faultPlaces(faults, "")...)
	}
	return nil
}

func (s *requests) knownStep(ctx context.Context, member, step string, t *events.Task) error {
	if t.Step(step) != nil {
		return nil
	}
	steps, err := s.definitions.Steps(ctx, t.Definition)
	if err != nil {
		return s.log.internal(ctx, "read the steps of a definition", err)
	}
	names := make([]string, len(steps))
	for i, d := range steps {
		names[i] = d.ID
	}
	if slices.Contains(names, step) {
		return nil
	}
	return problem(http.StatusUnprocessableEntity, codeInvalid, "The task has no such step.",
		ProblemPlace{Pointer: "/" + member, Message: "is not a step of the task; " + events.Suggest(step, names)})
}
