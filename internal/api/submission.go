package api

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
	"golang.org/x/sync/semaphore"
)

// aSubmission names a body, and the setting that limits it.
const aSubmission = "a submission (the setting submission_bytes of the namespace)"

// submissions takes new tasks: it checks them and appends them to the log.
type submissions struct {
	definitions Definitions
	workflows   *workflows
	tasks       Tasks
	router      proxy.Router
	producer    *producer
	// topic and source go into each record.
	topic      string
	source     []byte
	partitions int32
	// limit returns the longest submission, in bytes.
	limit func() int
	// replies returns why a task cannot be answered in a topic.
	replies func(topic string) error
	now     func() time.Time
	// keys seals inputs; nil: they stay in clear.
	keys Keys
	// lines counts the answers to lines of bulk submissions.
	lines *prometheus.CounterVec
	// traces makes the spans of submissions; nil: none.
	traces Traces
	// disk bounds the temporary files for answers that clients have not read.
	disk *semaphore.Weighted
	log  logger
}

// Receipt is the answer to a submission or request that the log holds.
type Receipt struct {
	ID        string `json:"id" doc:"The task's ID"`
	Partition int32  `json:"partition" doc:"The task's home partition"`
	Offset    *int64 `json:"offset,omitempty" doc:"Its offset in the input topic; absent if it was known before"`
	Token     string `json:"token" doc:"GET /v1/tasks/{id}?token= answers no older than this"`
	Letter    string `json:"dead_letter,omitempty" doc:"After a redrive: the ID of the dead letter that was sent again"`
}

// ReceiptAnswer is a receipt with its status.
type ReceiptAnswer struct {
	Status   int
	Location string `header:"Location"`
	Body     Receipt
}

// draft is a submission that is not yet in the log. check fills it in.
type draft struct {
	// data is the object as the client wrote it.
	data []byte
	// id is the ID in the path, or empty; check replaces it with the task's.
	id         string
	submission *events.Submission
	// content is the hash of the submission, empty until it is needed.
	content    string
	definition string
	partition  int32
	// isNew says that the engine chose its ID.
	isNew bool
	// subject is for whom its input is sealed.
	subject string
	// clear is the submission before its input was sealed; nil if it was not.
	clear *events.Submission
	// known says that the projection holds the same submission already.
	known bool
}

var submissionExample = map[string]any{
	"workflow": "drone-delivery", "input": map[string]any{"ownerId": "o-7"}, "labels": map[string]any{"region": "north"}, "deadline": "10m",
}

func (s *submissions) register(api huma.API) {
	put := operation(api, huma.Operation{
		OperationID: "put-task", Method: http.MethodPut, Path: "/v1/tasks/{id}", Summary: "Submit a task", Tags: []string{"tasks"},
		DefaultStatus: http.StatusAccepted,
		Description: "202 once the log holds it, 200 if the same submission was known already, 409 if another one has the ID. " +
			"The log decides: a conflict that this node does not know of is answered 202 and becomes a dead letter; a read with the token reports it.",
	})
	huma.Register(api, put, func(ctx context.Context, in *TaskPath) (*ReceiptAnswer, error) {
		if err := checkID(in.ID); err != nil {
			return nil, err
		}
		return s.submit(ctx, exchangeOf(ctx), in.ID)
	})
	post := operation(api, huma.Operation{
		OperationID: "post-task", Method: http.MethodPost, Path: "/v1/tasks", Summary: "Submit a task, or many", Tags: []string{"tasks"},
		DefaultStatus: http.StatusAccepted,
		Description: "As JSON like PUT; without id a UUIDv7 is generated. As application/x-ndjson, one submission per line: the answer is " +
			"200 and also NDJSON, one line for each in order, {\"line\",\"id\",\"status\",\"partition\",\"offset\"} or a problem with line and id. " +
			fmt.Sprintf("Read answers while you send: beyond %d MiB of unread answers, the rest of the body is not read until you do.", queueDisk>>20),
	})
	huma.Register(api, post, func(ctx context.Context, _ *struct{}) (*ReceiptAnswer, error) {
		return s.submit(ctx, exchangeOf(ctx), "")
	})
	submission := described{reflect.TypeFor[events.Submission](), submissionExample, s.limit()}
	describeBody(api, "/v1/tasks/{id}", http.MethodPut, submission, contentJSON)
	describeBody(api, "/v1/tasks", http.MethodPost, submission, contentJSON, contentNDJSON)
	for _, op := range []*huma.Operation{api.OpenAPI().Paths["/v1/tasks/{id}"].Put, api.OpenAPI().Paths["/v1/tasks"].Post} {
		alsoOK(op, "It was known already; for NDJSON, the answers to the lines")
	}
}

// receipt returns the receipt of an input of a task. The token has no offset if the input was known already.
func receipt(task string, t token) Receipt {
	r := Receipt{ID: task, Partition: t.partition, Token: t.String()}
	if t.offset >= 0 {
		r.Offset = &t.offset
	}
	return r
}

func submitted(task string, t token) *ReceiptAnswer {
	a := &ReceiptAnswer{Status: http.StatusAccepted, Location: taskPath(task), Body: receipt(task, t)}
	if t.offset < 0 {
		a.Status = http.StatusOK
	}
	return a
}

// submit answers one submission. urlID is the ID in the path, empty for POST.
func (s *submissions) submit(ctx context.Context, x exchange, urlID string) (*ReceiptAnswer, error) {
	trace := x.r.Header.Get("traceparent")
	if s.traces == nil {
		return s.accept(ctx, x, &draft{id: urlID}, trace)
	}
	return s.traced(ctx, x, &draft{id: urlID}, trace)
}

// accept reads a submission into d, checks it and appends it to the log, with a trace context.
func (s *submissions) accept(ctx context.Context, x exchange, d *draft, trace string) (*ReceiptAnswer, error) {
	if err := x.acceptsJSON(); err != nil {
		return nil, err
	}
	data, err := x.readBody(s.limit(), aSubmission)
	if err != nil {
		return nil, err
	}
	d.data = data
	if err := s.checkAll(ctx, d); err != nil {
		return nil, err
	}
	t := token{events.Submissions, d.partition, -1, d.content}
	if !d.known {
		if t.offset, err = s.producer.produce(ctx, s.record(d, s.header(trace))); err != nil {
			return nil, err
		}
	}
	return submitted(d.id, t), nil
}
