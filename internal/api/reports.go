package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/callback"
	"github.com/sagalog/sagalog/internal/traceparent"
)

const (
	// reportsPath is the path of callbacks; below it are the tickets.
	reportsPath = "/v1/reports/"
	// reportBytes has room for an output of the largest size, or for an error.
	reportBytes = events.MaxPayloadBytes + 16<<10
	// detailBytes bounds the detail of an error, as agents do.
	detailBytes = 16 << 10
	// retryAfterMost bounds retry_after, as agents do.
	retryAfterMost = 24 * time.Hour
	// reportInstance stands in the records as the instance that did the work.
	reportInstance = "callback"
)

// reports takes what services report about attempts that they accepted.
type reports struct {
	// keys is nil if this node takes no callbacks.
	keys *callback.Keys
	// namespace is the ID of the namespace.
	namespace string
	producer  *producer
	// topic and source go into each record.
	topic, source string
	partitions    int32
	now           func() time.Time
	pace          reportPace
	log           logger
	// often limits warnings about refused tickets.
	often logger
}

// ReportPath is a callback.
type ReportPath struct {
	Ticket string `path:"ticket" doc:"The ticket, from the header Sagalog-Callback of the call"`
}

// ReportBody is how an attempt ended, or how far it has come.
type ReportBody struct {
	Output     any          `json:"output,omitempty" doc:"The attempt has completed, with this output; null if it has none"`
	Error      *ReportError `json:"error,omitempty" doc:"The attempt has failed"`
	Effect     string       `json:"effect,omitempty" enum:"none,done_unknown,in_doubt" doc:"With error: none or done_unknown if the work is over, in_doubt, or absent, if it may still go on. Since an agent that crashes may call again, none counts as done_unknown"`
	RetryAfter string       `json:"retry_after,omitempty" doc:"With error: the shortest time until the next attempt, at most 24h" example:"30s"`
	Progress   any          `json:"progress,omitempty" doc:"The attempt goes on. If its step has a heartbeat, this keeps it alive, and the next attempt gets the value; at most 16 KiB"`
}

// ReportError says why an attempt failed.
type ReportError struct {
	Class   string `json:"class,omitempty" enum:"retryable,permanent" doc:"Whether another attempt may help; default retryable"`
	Code    string `json:"code,omitempty" doc:"A short word for programs" example:"no_stock"`
	Message string `json:"message" doc:"One line for people"`
	Detail  any    `json:"detail,omitempty" doc:"Anything else, at most 16 KiB"`
}

// ReportReceipt says how a report was understood.
type ReportReceipt struct {
	Result events.Result `json:"result" enum:"completed,failed,progress" doc:"How the report was understood"`
}

// ReportAnswer is the answer to a report.
type ReportAnswer struct{ Body ReportReceipt }

func (s *reports) register(api huma.API) {
	path := reportsPath + "{ticket}"
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "report", Method: http.MethodPost, Path: path, Summary: "Report how an accepted attempt ended", Tags: []string{"callbacks"}, DefaultStatus: http.StatusAccepted,
		Description: "For a service that answered the call of an HTTP agent by a status of accepted. The URL is in the header Sagalog-Callback of that call, and is the right to " +
			"report this attempt. The body has exactly one of output, error and progress. 202 once the log holds the report. Repeats are harmless: the first outcome counts, and a " +
			"report about an attempt that is over changes nothing. 404 if the ticket is not valid here.",
	}), s.report)
	describeBody(api, path, http.MethodPost, described{reflect.TypeFor[ReportBody](), map[string]any{"output": map[string]any{"parcel": "p-17"}}, reportBytes}, contentJSON)
}

// hiddenTicket returns a path without the ticket of a callback: it is a right, and problems end up in the logs of clients.
func hiddenTicket(path string) string {
	if strings.HasPrefix(path, reportsPath) {
		return reportsPath + "{ticket}"
	}
	return path
}

// report checks the ticket before it reads the body, so that nobody else makes this node read or write anything.
func (s *reports) report(ctx context.Context, in *ReportPath) (*ReportAnswer, error) {
	t, ok := s.open(in.Ticket)
	if !ok {
		return nil, problem(http.StatusNotFound, codeNotFound, "There is no such ticket.")
	}
	if !s.pace.allows(in.Ticket, s.now()) {
		return nil, problem(http.StatusTooManyRequests, codeTooMany, fmt.Sprintf("More than %d reports of one attempt came within a second. Report less often.", reportsPerSecond)).
			retryAfter(time.Second)
	}
	x := exchangeOf(ctx)
	e, err := x.readReport()
	if err != nil {
		return nil, err
	}
	s.complete(&e, t)
	now := events.At(s.now())
	r, err := events.EncodeReport(e, events.Subject{ID: reportID(&e, now), Source: s.source, Time: now, Traceparent: traceparent.Given(x.r.Header.Get("traceparent"))})
	if err != nil {
		return nil, s.log.internal(ctx, "encode a report", err)
	}
	r.Topic, r.Partition = s.topic, events.Home(e.Task, s.partitions)
	if _, err := s.producer.produce(ctx, r); err != nil {
		return nil, err
	}
	return &ReportAnswer{Body: ReportReceipt{Result: e.Result}}, nil
}

func (s *reports) open(text string) (callback.Ticket, bool) {
	if s.keys == nil {
		s.often.Warn("a callback is refused: this node has no key that checks tickets (--callback-key-file)")
		return callback.Ticket{}, false
	}
	t, ok := s.keys.Open(s.namespace, text)
	if !ok {
		s.often.Warn("a callback is refused: its ticket is not signed by a key of this node; agents and nodes with the role api need the same key (--callback-key-file)")
	}
	return t, ok
}

// complete adds what the ticket says. The agent cannot know any more what else of the attempt may be under way when the service reports: if
// it had to make the call again, or another instance may have made it, the attempt is in doubt. It may also have died before it had recorded
// that it made the call, and then the call is made again. So no report can promise that the attempt has no effect any more.
func (s *reports) complete(e *events.Report, t callback.Ticket) {
	e.Task, e.Run, e.Step, e.Operation, e.Attempt, e.Ticket = t.Task, t.Run, t.Step, t.Operation, t.Attempt, t.Incarnation
	e.Instance = reportInstance
	if e.Result == events.ResultProgress {
		return
	}
	e.StartedAt, e.FinishedAt = t.StartedAt, events.At(s.now())
	if e.Effect == events.EffectNone {
		e.Effect = events.EffectDoneUnknown
	}
	if t.Again && (e.Result == events.ResultFailed || e.Operation == events.Do) {
		e.Effect = events.EffectInDoubt
	}
	if e.Operation == events.Undo {
		e.Output = nil
	}
}

// reportID is the same for an outcome that is sent again, in the form in which agents name theirs.
func reportID(e *events.Report, now events.Instant) string {
	id := e.ID()
	if e.Result == events.ResultProgress {
		id += "/" + now.String()
	}
	return id
}

// The members of a report.
var (
	reportMembers = []string{"output", "error", "effect", "retry_after", "progress"}
	errorMembers  = []string{"class", "code", "message", "detail"}
	reportClasses = []events.Class{events.ClassRetryable, events.ClassPermanent}
	reportEffects = []events.Effect{events.EffectNone, events.EffectDoneUnknown, events.EffectInDoubt}
)

// readReport reads the body of a callback.
func (x exchange) readReport() (e events.Report, err error) {
	data, err := x.readBody(reportBytes, "a report")
	if err != nil {
		return e, err
	}
	if err := x.acceptsJSON(); err != nil {
		return e, err
	}
	if p := syntaxProblem(data); p != nil {
		return e, p
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || members == nil {
		return e, reportProblem(ProblemPlace{Message: "is not an object"})
	}
	var f reportFaults
	f.unknown("", members, reportMembers)
	for name, raw := range members { // a fact could not hold it
		if _, err := events.Compact(raw); err != nil {
			f.add("/"+name, "cannot be used: "+err.Error())
		}
	}
	var kinds []events.Result
	for name, kind := range map[string]events.Result{"output": events.ResultCompleted, "error": events.ResultFailed, "progress": events.ResultProgress} {
		if _, has := members[name]; has {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) != 1 {
		f.add("", "has not exactly one of output (completed), error (failed) and progress (it goes on)")
		return e, reportProblem(f...)
	}
	e.Result, e.Output, e.Progress = kinds[0], members["output"], members["progress"]
	f.failure(&e, members)
	if len(e.Progress) > events.MaxProgress {
		f.add("/progress", fmt.Sprintf("has %d bytes; %d are allowed", len(e.Progress), events.MaxProgress))
	}
	if len(f) > 0 {
		return e, reportProblem(f...)
	}
	return e, nil
}

func reportProblem(faults ...ProblemPlace) *Problem {
	return problem(http.StatusUnprocessableEntity, codeInvalid, "The report cannot be used, and the attempt goes on.", faults...)
}

// reportFaults are the faults of a report.
type reportFaults []ProblemPlace

func (f *reportFaults) add(pointer, message string) {
	*f = append(*f, ProblemPlace{Pointer: pointer, Message: message})
}

func (f *reportFaults) unknown(at string, members map[string]json.RawMessage, known []string) {
	for name := range members {
		if !slices.Contains(known, name) {
			f.add(at+"/"+name, "is not a member; "+events.Suggest(name, known))
		}
	}
}

// failure reads the members of a report that only a failure has.
func (f *reportFaults) failure(e *events.Report, members map[string]json.RawMessage) {
	for _, name := range []string{"effect", "retry_after"} {
		if _, has := members[name]; has && e.Result != events.ResultFailed {
			f.add("/"+name, "belongs to error")
			return
		}
	}
	if e.Result != events.ResultFailed {
		return
	}
	if raw, has := members["effect"]; has && (json.Unmarshal(raw, &e.Effect) != nil || !slices.Contains(reportEffects, e.Effect)) {
		f.add("/effect", "is not none, done_unknown or in_doubt")
	}
	if raw, has := members["retry_after"]; has && (json.Unmarshal(raw, &e.RetryAfter) != nil || e.RetryAfter < 0 || e.RetryAfter.Std() > retryAfterMost) {
		f.add("/retry_after", "is not a duration of at most "+events.Duration(retryAfterMost).String()+`, such as "30s"`)
	}
	e.Error = f.cause(members["error"])
	if e.Effect == "" {
		e.Effect = events.EffectInDoubt
	}
}

// cause reads why an attempt failed.
func (f *reportFaults) cause(raw json.RawMessage) *events.Error {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		f.add("/error", `is not an object, such as {"message": "no stock"}`)
		return nil
	}
	f.unknown("/error", members, errorMembers)
	c := &events.Error{Class: events.ClassRetryable, Detail: members["detail"]}
	text := func(name string, into any) bool {
		raw, has := members[name]
		return !has || string(raw) != "null" && json.Unmarshal(raw, into) == nil
	}
	if !text("class", &c.Class) || !slices.Contains(reportClasses, c.Class) {
		f.add("/error/class", "is not retryable or permanent")
	}
	if !text("code", &c.Code) || len(c.Code) > events.MaxTaskID {
		f.add("/error/code", "is not a text of at most "+strconv.Itoa(events.MaxTaskID)+" bytes")
	}
	if !text("message", &c.Message) || c.Message == "" || len(c.Message) > maxReason {
		f.add("/error/message", "is not a text of 1 to "+strconv.Itoa(maxReason)+" bytes that says why the attempt failed")
	}
	if len(c.Detail) > detailBytes {
		f.add("/error/detail", fmt.Sprintf("has %d bytes; %d are allowed", len(c.Detail), detailBytes))
	}
	return c
}

const (
	// reportsPerSecond bounds the reports of one attempt. Progress every second is plenty, and a loop that does not wait writes no more than this.
	reportsPerSecond = 10
	// pacedTickets bounds the attempts that are counted: more of them within a second mean that something is wrong.
	pacedTickets = 100_000
)

// reportPace counts the reports of each ticket in the present second. The zero value is ready.
type reportPace struct {
	mu sync.Mutex
	// mu guards the fields below.
	second int64
	counts map[string]int
}

func (p *reportPace) allows(ticket string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if second := now.Unix(); p.counts == nil || second != p.second {
		p.second, p.counts = second, map[string]int{}
	}
	n, known := p.counts[ticket]
	if n >= reportsPerSecond || !known && len(p.counts) >= pacedTickets {
		return false
	}
	p.counts[ticket] = n + 1
	return true
}
