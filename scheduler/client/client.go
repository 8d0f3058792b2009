package client

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
)

// Submission is a task to submit. Without an ID a UUIDv7 is generated, which is in the receipt.
//
// The fields and their limits are described by `go doc events.Submission`; only Workflow is required:
//
//	ID, Workflow string
//	Version      int               // default: the current version
//	Input        json.RawMessage
//	Priority     int               // -1,000 to 1,000
//	Labels       map[string]string // at most 32
//	Deadline     string            // a duration such as "10m", or an instant
//	NotBefore    string            // likewise
//	ReplyTo      string            // a topic that gets the states of the task
//	ReplyKey     string
//
// The other fields are set by the engine alone.
type Submission = events.Submission

// Receipt says that the log holds a submission or a signal.
type Receipt struct {
	// ID is the task's.
	ID string
	// RequestID is that of a signal. It is also set if Send returns an error, so that the signal can be sent again under it.
	RequestID string
	Partition int32
	// Offset is its offset in <ns>.submissions (of a signal over HTTP: in <ns>.reports), or -1 if Known.
	Offset int64
	// Known says that the engine already knew this submission.
	Known bool
	// Token makes a read wait until the engine has judged the submission: Engine.Accepted, or GET /v1/tasks/{id}?token=. It is empty for a
	// signal over Kafka, and for a submission of SubmitAll that is Known.
	Token string
}

// tokenOf returns the token of a submission at a place in the log. It is that of the API without the content of the submission: the engine looks up
// whether the input at that place was rejected.
func tokenOf(partition int32, offset int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(events.CauseInput(events.Submissions, partition, offset)))
}

// Result is the outcome of one submission of many.
type Result struct {
	Receipt
	Err error
}

// Client submits tasks and sends signals. It is safe for concurrent use.
type Client struct{ way way }

// way is a way for submissions to reach the log.
type way interface {
	// submit sends checked drafts, and returns a result for each, in order.
	submit(ctx context.Context, drafts []draft) []Result
	// send sends a checked signal with its ID.
	send(ctx context.Context, task string, s Signal) Result
	close()
}

// draft is a submission that was checked, with its ID.
type draft struct {
	id   string
	body []byte
}

// Submit returns once the submission is durable, or with one of the errors of this package. Over Kafka it waits for the brokers
// until ctx ends; over HTTP it gives up as HTTPConfig.RetryFor says.
func (c *Client) Submit(ctx context.Context, s Submission) (Receipt, error) {
	d, err := prepare(s)
	if err != nil {
		return Receipt{}, err
	}
	r := c.way.submit(ctx, []draft{d})[0]
	return r.Receipt, r.Err
}

// SubmitAll submits many at once and returns a result for each, in order. A failure does not stop the others.
func (c *Client) SubmitAll(ctx context.Context, list []Submission) []Result {
	results := make([]Result, len(list))
	drafts := make([]draft, 0, len(list))
	places := make([]int, 0, len(list))
	for i, s := range list {
		d, err := prepare(s)
		if err != nil {
			results[i] = Result{Receipt: Receipt{ID: s.ID, Offset: -1}, Err: err}
			continue
		}
		drafts, places = append(drafts, d), append(places, i)
	}
	for len(drafts) > 0 {
		n := min(len(drafts), batchMax)
		for i, r := range c.way.submit(ctx, drafts[:n]) {
			results[places[i]] = r
		}
		drafts, places = drafts[n:], places[n:]
	}
	return results
}

// Send sends a signal to a task and returns once it is durable, with its place in the receipt. Whether a step takes it is decided later; a
// signal that no step of the workflow can take becomes a dead letter, or over HTTP mostly an error at once. Over Kafka it goes behind the
// submissions of the same client, so it never comes before its task. After ErrUnavailable send it again with the RequestID of the receipt: it
// is taken once.
//
// Engine.Signal waits for the decision.
func (c *Client) Send(ctx context.Context, task string, s Signal) (Receipt, error) {
	s.RequestID = cmp.Or(s.RequestID, uuid.Must(uuid.NewV7()).String())
	r := c.sendChecked(ctx, task, s)
	r.RequestID = s.RequestID
	if errors.Is(r.Err, ErrUnavailable) { // the caller may keep nothing but the error
		r.Err = fmt.Errorf("send the signal with the request ID %q: %w", s.RequestID, r.Err)
	}
	return r.Receipt, r.Err
}

// sendChecked sends a signal that can be sent.
func (c *Client) sendChecked(ctx context.Context, task string, s Signal) Result {
	e := &Error{Kind: ErrInvalid}
	collect(events.CheckTaskID(task), e)
	if s.Name == "" {
		e.Places = append(e.Places, Place{Pointer: "/signal", Message: signalMissing})
	}
	if len(s.Payload) > 0 && !json.Valid(s.Payload) {
		e.Places = append(e.Places, Place{Pointer: "/payload", Message: notJSON})
	}
	switch {
	case len(e.Places) > 0:
		return failed(task, e)
	case len(s.Payload) > maxBody:
		return failed(task, &Error{Kind: ErrTooLarge})
	}
	return c.way.send(ctx, task, s)
}

const (
	signalMissing = "is missing: the name of the signal that the step waits for"
	notJSON       = "is not JSON: a text needs quotes, as json.Marshal writes them"
)

// batchMax bounds the submissions sent at once: enough that the cost of a request does not matter.
const batchMax = 2000

// Close closes the connections. A submission in flight has an unknown outcome. Any later call returns ErrClosed.
func (c *Client) Close() { c.way.close() }

// prepare checks a submission as an engine would, as far as that is possible without its workflows.
func prepare(s Submission) (draft, error) {
	if s.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return draft{}, err
		}
		s.ID = id.String()
	}
	if len(s.Input) > 0 && !json.Valid(s.Input) {
		return draft{}, &Error{Kind: ErrInvalid, Places: []Place{{Pointer: "/input", Message: notJSON}}}
	}
	body, err := events.Marshal(&s)
	if err != nil {
		return draft{}, invalid(err)
	}
	if _, err := events.ParseSubmission(body); err != nil {
		return draft{}, invalid(err)
	}
	if len(body) > maxBody {
		return draft{}, &Error{Kind: ErrTooLarge}
	}
	return draft{id: s.ID, body: body}, nil
}

// maxBody is the limit of a topic, less room for headers. The engine's own limit is lower, and the engine checks it.
const maxBody = 2<<20 - 64<<10
