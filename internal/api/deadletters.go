package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// The headers that a dead letter adds to those of the rejected record: the names that KIP-1191 defines, and our reason.
const (
	DeadHeaderPrefix    = "__dlq.errors."
	DeadHeaderTopic     = DeadHeaderPrefix + "topic"
	DeadHeaderPartition = DeadHeaderPrefix + "partition"
	DeadHeaderOffset    = DeadHeaderPrefix + "offset"
	DeadHeaderMessage   = DeadHeaderPrefix + "message"
	DeadHeaderTime      = DeadHeaderPrefix + "time"
	// DeadHeaderReason is one of the reasons of InputRejected.
	DeadHeaderReason = DeadHeaderPrefix + "reason"
)

// deadLetters shows rejected inputs and sends them again.
type deadLetters struct {
	letters     DeadLetters
	submissions *submissions
	producer    *producer
	cfg         *Config
	log         logger
	// looks has a place for each look at the same time.
	looks chan struct{}
}

// DeadLetterDocument is a rejected input.
type DeadLetterDocument struct {
	ID        string            `json:"id" example:"submissions-3-17"`
	Reason    string            `json:"reason"`
	Detail    string            `json:"detail,omitempty"`
	Topic     string            `json:"topic" doc:"The topic of the input"`
	Partition int32             `json:"partition"`
	Offset    int64             `json:"offset"`
	Time      events.Instant    `json:"time,omitzero" format:"date-time"`
	Key       string            `json:"key,omitempty"`
	Headers   map[string]string `json:"headers,omitempty" doc:"As the sender wrote them"`
	Value     *string           `json:"value,omitempty" doc:"The original bytes, if they are UTF-8"`
	Base64    []byte            `json:"value_base64,omitempty" doc:"The original bytes, if they are not"`
	Mark      *DeadLetterMark   `json:"mark,omitempty" doc:"What was done about it; a namespace remembers the latest 100,000 marks"`
}

// DeadLetterMark says what somebody has done about a dead letter.
type DeadLetterMark struct {
	Mark      string         `json:"mark" enum:"redriven,dismissed"`
	At        events.Instant `json:"at" format:"date-time"`
	By        string         `json:"by,omitempty"`
	Reason    string         `json:"reason,omitempty"`
	Task      string         `json:"task,omitempty" doc:"The task of the input that was sent again"`
	Partition *int32         `json:"partition,omitempty" doc:"Where that input is in its topic; absent if a task had it already, or if an edited copy was submitted"`
	Offset    *int64         `json:"offset,omitempty"`
}

// DeadLetterPath is the path of a dead letter.
type DeadLetterPath struct {
	ID string `path:"id" doc:"As listed" example:"submissions-3-17"`
}

// DeadLetterQuery pages through the dead letters.
type DeadLetterQuery struct {
	Cursor string    `query:"cursor" doc:"next of the page before"`
	Limit  pageLimit `query:"limit" default:"100" doc:"Dead letters a page"`
	Open   bool      `query:"open" doc:"Only open ones: neither redriven nor dismissed"`
	Reason string    `query:"reason" doc:"Only those that were rejected for this reason"`
	Key    string    `query:"key" doc:"Only those whose record has this key, which is the ID of a task as a rule. A page looks through about 2,000 dead letters or 4 MiB"`
}

// DeadLetterAnswer is a dead letter.
type DeadLetterAnswer struct{ Body DeadLetterDocument }

// DeadLettersAnswer is a page of dead letters.
type DeadLettersAnswer struct {
	Body struct {
		DeadLetters []DeadLetterDocument `json:"dead_letters" nullable:"false" doc:"The newest first"`
		Next        string               `json:"next,omitempty"`
		Missing     []MissingPartition   `json:"missing,omitempty" doc:"The partitions that this page lacks; next continues where they are"`
	}
}

const (
	redrivePath = "/v1/dead-letters/{id}/redrive"
	dismissPath = "/v1/dead-letters/{id}/dismiss"
	reopenPath  = "/v1/dead-letters/{id}/reopen"
)

func (s *deadLetters) register(api huma.API) {
	const path = "/v1/dead-letters"
	tags := []string{"dead letters"}
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "list-dead-letters", Method: http.MethodGet, Path: path, Summary: "List rejected inputs", Tags: tags,
		Description: "A partition whose Kafka brokers do not answer is named in missing, and the page holds the dead letters of the others. " +
			"next remembers where it continues. With open, reason or key, a page may be short or empty and still have next: after about 10,000 records or 32 MiB, and with key after about 2,000 or 4 MiB. If no partition of the page can be read, the answer is 503.",
	}), s.list)
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "get-dead-letter", Method: http.MethodGet, Path: path + "/{id}", Summary: "Read a rejected input", Tags: tags,
	}), func(ctx context.Context, in *DeadLetterPath) (*DeadLetterAnswer, error) {
		ref, r, err := s.find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &DeadLetterAnswer{Body: s.document(ref, r)}, nil
	})
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "redrive-dead-letter", Method: http.MethodPost, Path: redrivePath, Summary: "Send a rejected input again", Tags: tags,
		DefaultStatus: http.StatusAccepted,
		Description: "The original bytes go to the input topic again, as a new record. A submission is checked first like any other, and a report must be readable: " +
			"one that would be rejected again is answered with the problem instead. The dead letter is marked as redriven, with the place of the new record.",
	}), func(ctx context.Context, in *DeadLetterPath) (*ReceiptAnswer, error) { return s.redrive(ctx, in.ID) })
	optionalBody[MarkBody](api, redrivePath, map[string]any{"reason": "the workflow is applied now", "by": "anna"})
	s.registerMarks(api, tags)
}

// deadRef names a dead letter by the coordinates of its record.
type deadRef struct {
	input     events.Input
	partition int32
	offset    int64
}

func (d deadRef) String() string {
	return fmt.Sprintf("%s-%d-%d", d.input, d.partition, d.offset)
}

func parseDeadRef(id string) (deadRef, bool) {
	parts := strings.Split(id, "-")
	if len(parts) != 3 || (parts[0] != string(events.Submissions) && parts[0] != string(events.Reports)) {
		return deadRef{}, false
	}
	p, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil || p < 0 {
		return deadRef{}, false
	}
	o, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || o < 0 {
		return deadRef{}, false
	}
	return deadRef{events.Input(parts[0]), int32(p), o}, true
}

func (s *deadLetters) find(ctx context.Context, id string) (deadRef, *events.Record, error) {
	missing := problem(http.StatusNotFound, codeNotFound, "No dead letter has this ID.")
	ref, ok := parseDeadRef(id)
	if !ok || ref.partition >= s.cfg.Partitions {
		return ref, nil, missing
	}
	list, err := s.letters.Read(ctx, ref.input, ref.partition, ref.offset, ref.offset+1)
	if err != nil {
		return ref, nil, s.log.internal(ctx, "read a dead letter", err)
	}
	for i := range list {
		if list[i].Offset == ref.offset && !list[i].Control {
			return ref, &list[i], nil
		}
	}
	return ref, nil, missing
}

func (s *deadLetters) document(ref deadRef, r *events.Record) DeadLetterDocument {
	d := DeadLetterDocument{
		ID: ref.String(), Mark: s.letters.LetterMark(ref.String(), r.Timestamp), Reason: r.Header(DeadHeaderReason), Detail: r.Header(DeadHeaderMessage), Topic: r.Header(DeadHeaderTopic),
		Time: r.Timestamp, Key: strings.ToValidUTF8(string(r.Key), "\uFFFD"),
	}
	if at, err := events.ParseInstant(r.Header(DeadHeaderTime)); err == nil {
		d.Time = at
	}
	p, _ := strconv.ParseInt(r.Header(DeadHeaderPartition), 10, 32)
	d.Partition = int32(p)
	d.Offset, _ = strconv.ParseInt(r.Header(DeadHeaderOffset), 10, 64)
	for _, h := range originalHeaders(r) {
		if d.Headers == nil {
			d.Headers = map[string]string{}
		}
		d.Headers[h.Key] = strings.ToValidUTF8(string(h.Value), "\uFFFD")
	}
	if utf8.Valid(r.Value) {
		text := string(r.Value)
		d.Value = &text
	} else {
		d.Base64 = r.Value
	}
	return d
}

// originalHeaders returns the headers that the sender wrote.
func originalHeaders(r *events.Record) []events.Header {
	var list []events.Header
	for _, h := range r.Headers {
		if !strings.HasPrefix(h.Key, DeadHeaderPrefix) && h.Key != events.HeaderForwardedFrom && h.Key != events.HeaderForwardedAt {
			list = append(list, h)
		}
	}
	return list
}

// redrive sends the bytes of a dead letter again, to the home partition of its task.
func (s *deadLetters) redrive(ctx context.Context, id string) (*ReceiptAnswer, error) {
	x := exchangeOf(ctx)
	var body MarkBody
	if err := x.readTexts("a redrive", "The dead letter is left as it is.", map[string]memberText{"reason": {&body.Reason, maxReason}, "by": {&body.By, events.MaxTaskID}}); err != nil {
		return nil, err
	}
	ref, dead, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if size := dead.Header(events.HeaderCut); size != "" {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, fmt.Sprintf(
			"The dead letter holds only a part of an input of %s bytes, and would be rejected again. The input is in %s, partition %s, offset %s, unless it was trimmed since.",
			size, dead.Header(DeadHeaderTopic), dead.Header(DeadHeaderPartition), dead.Header(DeadHeaderOffset)))
	}
	r := events.Record{Topic: s.cfg.inputTopic(ref.input), Key: dead.Key, Value: dead.Value, Headers: originalHeaders(dead)}
	e, data, err := events.Open(&r)
	if err != nil {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The dead letter is not a CloudEvent, and would be rejected again.")
	}
	if ref.input == events.Reports && dead.Header(DeadHeaderReason) == events.RejectUnreadable {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The record cannot be read, and would be rejected again: "+dead.Header(DeadHeaderMessage)+".")
	}
	if ref.input == events.Reports && e.Type == events.TypeReport {
		if _, err := events.DecodeReport(data); err != nil {
			return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The report cannot be read, and would be rejected again: "+err.Error()+".")
		}
	}
	var d draft // of a submission
	if ref.input == events.Submissions {
		if limit := s.cfg.SubmissionLimit(); len(data) > limit {
			return nil, tooLargeProblem(limit, aSubmission)
		}
		sub, err := parseSubmission(data)
		if err != nil {
			return nil, err
		}
		d = draft{data: data, id: sub.ID}
	}
	task, err := events.TaskID(r.Key, e.Subject, d.id)
	if err != nil {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The dead letter names no task, and would be rejected again.", places(err)...)
	}
	t := token{input: ref.input, partition: events.Home(task, s.cfg.Partitions), offset: -1}
	if ref.input == events.Submissions {
		d.id = task
		if err := s.submissions.checkAll(ctx, &d); err != nil {
			return nil, err
		}
		t.mark = d.content
		r.Headers = restamp(r.Headers, d.definition)
	}
	if !d.known {
		r.Partition = t.partition
		if t.offset, err = s.producer.produce(ctx, r); err != nil {
			return nil, err
		}
	}
	s.redriven(ctx, events.DeadLetterMark{Letter: ref.String(), Written: dead.Timestamp, Task: task, Partition: t.partition, Offset: t.offset, Reason: body.Reason, By: x.by(body.By)})
	answer := submitted(task, t)
	answer.Body.Letter = ref.String()
	return answer, nil
}

// restamp names the definition that the submission was validated against now.
func restamp(headers []events.Header, definition string) []events.Header {
	list := slices.DeleteFunc(headers, func(h events.Header) bool { return h.Key == events.HeaderDefinition })
	if definition == "" {
		return list
	}
	return append(list, events.Header{Key: events.HeaderDefinition, Value: []byte(definition)})
}
