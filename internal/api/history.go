package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sentence"
)

// histories answers with the facts of tasks, as pages or as a stream.
type histories struct {
	tasks      Tasks
	history    History
	keys       Keys // nil: what is sealed stays so
	partitions int32
	streams    prometheus.Gauge
	// room holds a place for each open stream.
	room chan struct{}
	life lifetime
	log  logger
}

// HistoryQuery pages through the history of a task.
type HistoryQuery struct {
	TaskPath
	Cursor      string    `query:"cursor" doc:"next of the page before, or the id of an event"`
	Limit       pageLimit `query:"limit" default:"100" doc:"Events a page"`
	Accept      string    `header:"Accept" doc:"text/event-stream follows the task live"`
	LastEventID string    `header:"Last-Event-ID" doc:"For a stream: continue after this event"`
}

// HistoryEvent is a fact of a task.
type HistoryEvent struct {
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Time      events.Instant  `json:"time" format:"date-time"`
	Type      string          `json:"type" example:"StepCompleted"`
	Epoch     string          `json:"epoch"`
	Sequence  uint64          `json:"sequence"`
	Owner     string          `json:"owner,omitempty" doc:"The node that decided it"`
	Step      string          `json:"step,omitempty"`
	Attempt   int             `json:"attempt,omitzero"`
	Cause     string          `json:"cause,omitempty" example:"s/3/120"`
	Text      string          `json:"text" example:"charge is completed" doc:"What it means, in a sentence for people. Programs read type and data."`
	Data      json.RawMessage `json:"data,omitempty"`
}

// HistoryPage is one page of a history, oldest first.
type HistoryPage struct {
	Events []HistoryEvent `json:"events" nullable:"false"`
	Next   string         `json:"next,omitempty" doc:"The cursor of the next page; absent when there is no more yet"`
}

func (s *histories) register(api huma.API) {
	op := needsOwner(api, huma.Operation{
		OperationID: "task-history", Method: http.MethodGet, Path: "/v1/tasks/{id}/history",
		Summary: "Read or follow the history of a task", Tags: []string{"tasks"},
		Description: "As JSON, in pages. As text/event-stream, each fact is an event whose name is its type and whose id resumes the stream; " +
			"a comment every 15 s keeps it alive; the event end, with the task's state, closes it when the task has ended, and a stream resumed " +
			"after the end is answered 204. A stream also ends, without that event, when its node stops or its task's partition is taken over: " +
			"ask again with Last-Event-ID. A node that has too many open streams answers 503 with Retry-After. " +
			"The times ascend, except at TimeCorrected, which follows a clock that was ahead.",
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
			contentJSON:        {Schema: huma.SchemaFromType(api.OpenAPI().Components.Schemas, historyReflected)},
			contentEventStream: {Schema: &huma.Schema{Type: huma.TypeString}},
		}}},
	})
	huma.Register(api, op, func(ctx context.Context, in *HistoryQuery) (*huma.StreamResponse, error) {
		if err := checkID(in.ID); err != nil {
			return nil, err
		}
		if strings.Contains(in.Accept, contentEventStream) {
			return s.follow(ctx, in)
		}
		return s.read(ctx, in)
	})
}

// cursorOf returns the cursor of an event. It is opaque to clients. The partition in it catches most cursors of other
// tasks.
func cursorOf(partition int32, offset int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(int(partition)) + "/" + strconv.FormatInt(offset, 10)))
}

// after returns the offset after the event that a cursor names.
func (s *histories) after(id, cursor, parameter string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	bad := parameterProblem(parameter, "is not a cursor of this history")
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, bad
	}
	p, o, ok := strings.Cut(string(b), "/")
	partition, errP := strconv.ParseInt(p, 10, 32)
	offset, errO := strconv.ParseInt(o, 10, 64)
	if !ok || errP != nil || errO != nil || offset < 0 || int32(partition) != events.Home(id, s.partitions) {
		return 0, bad
	}
	return offset + 1, nil
}

func (s *histories) read(ctx context.Context, in *HistoryQuery) (*huma.StreamResponse, error) {
	from, err := s.after(in.ID, in.Cursor, "cursor")
	if err != nil {
		return nil, err
	}
	// One fact more than the page holds shows whether there is a next page.
	facts, err := s.history.History(ctx, in.ID, from, int(in.Limit)+1)
	if err != nil {
		return nil, s.log.internal(ctx, "read a history", err)
	}
	if len(facts) == 0 {
		if _, err := s.log.known(ctx, s.tasks, in.ID); err != nil {
			return nil, err
		}
	}
	open := messages{keys: s.keys}
	page := HistoryPage{Events: make([]HistoryEvent, 0, len(facts))}
	for i, f := range facts {
		if i == int(in.Limit) {
			last := facts[i-1].Record
			page.Next = cursorOf(last.Partition, last.Offset)
			break
		}
		page.Events = append(page.Events, open.event(f))
	}
	b, err := events.Marshal(page)
	if err != nil {
		return nil, s.log.internal(ctx, "encode a history", err)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		c.SetHeader("Content-Type", contentJSON)
		c.SetStatus(http.StatusOK)
		c.BodyWriter().Write(append(b, '\n'))
	}}, nil
}

// EventOf returns the form in which a history shows a fact.
func EventOf(f LoggedFact) HistoryEvent {
	r := &f.Record
	e := HistoryEvent{
		Partition: r.Partition, Offset: r.Offset, Owner: f.Owner,
		Type:  strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix),
		Cause: r.Header(events.HeaderCause), Data: r.Value,
	}
	if at, err := events.PositionOf(r); err == nil { // a claim has none
		e.Epoch, e.Sequence = at.Epoch.String(), at.Sequence
	}
	e.Time, _ = events.ParseInstant(r.Header(events.HeaderTime))
	var of struct {
		Step    string `json:"step"`
		Attempt int    `json:"attempt"`
	}
	if json.Unmarshal(r.Value, &of) == nil {
		e.Step, e.Attempt = of.Step, of.Attempt
	}
	e.Text = sentence.Of(e.Type, r.Value)
	return e
}
