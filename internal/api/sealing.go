package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sagalog/sagalog/events"
)

// Keys seals what clients send and opens what they read. It is safe for concurrent use. An error is an *events.NoKeyError if a key is not there now, and
// wraps ErrNoAnswer if the brokers do not answer.
type Keys interface {
	// Open returns a value with all sealed values in it opened. It returns an *events.ErasedError if the key of one was erased.
	Open(value []byte) ([]byte, error)
	// SealInput seals the input of the submission of a task for a subject; "" is the namespace. It makes the subject's first key.
	SealInput(ctx context.Context, subject, task string, input []byte) ([]byte, error)
	// Prepare makes the first keys of those of the subjects that have none.
	Prepare(ctx context.Context, subjects ...string) error
	// Seal likewise seals any other value.
	Seal(ctx context.Context, subject string, value []byte) ([]byte, error)
	// SealLike seals a value for the subject of one that is sealed.
	SealLike(like, value []byte) ([]byte, error)
}

// SubjectLabel is the label of a task that names the subject for which its content is sealed, such as a customer. Its submission gives it, or
// its workflow computes it.
const SubjectLabel = "subject"

// prepareKeys makes all keys that the drafts need with one write. If that fails, sealing a draft reports the error.
func (s *submissions) prepareKeys(ctx context.Context, drafts []draft) {
	if s.keys == nil {
		return
	}
	var subjects []string
	for i := range drafts {
		if d := &drafts[i]; d.submission != nil && !events.IsSealed(d.submission.Input) {
			subjects = append(subjects, d.subject)
		}
	}
	if err := s.keys.Prepare(ctx, subjects...); err != nil {
		s.log.Debug("keys cannot be made", "error", err)
	}
}

// seal seals the input of a checked draft, if this node has a key.
func (s *submissions) seal(ctx context.Context, d *draft) error {
	sub := d.submission
	if s.keys == nil || events.IsSealed(sub.Input) {
		return nil
	}
	if events.HasSealed(sub.Input) {
		return problem(http.StatusUnprocessableEntity, codeInvalid, "The submission cannot be used.",
			ProblemPlace{Pointer: "/input", Message: "has a sealed value in it: seal the input as a whole, or send it in clear"})
	}
	sealed, err := s.keys.SealInput(ctx, d.subject, d.id, sub.Input)
	if err != nil {
		return s.log.internal(ctx, "seal an input", err)
	}
	clear := *sub
	d.clear, sub.Input = &clear, sealed
	if d.data, err = events.Marshal(sub); err != nil {
		return s.log.internal(ctx, "encode a submission", err)
	}
	if len(d.data) > s.limit() {
		return problem(http.StatusRequestEntityTooLarge, codeTooLarge,
			fmt.Sprintf("The submission has %d bytes when its input is sealed, which takes a third more; %d are allowed.", len(d.data), s.limit()))
	}
	return nil
}

// knownInClear says whether the task is the same submission, which came before this namespace sealed anything.
func (d *draft) knownInClear(t *events.Task) bool {
	if d.clear == nil {
		return false
	}
	content, err := d.clear.ContentHash()
	return err == nil && content == t.Content
}

// knownByContent says whether the task is the same submission, sealed with another data key. The error is an *events.NoKeyError if that cannot be known
// now.
func (s *submissions) knownByContent(d *draft, t *events.Task) (bool, error) {
	if s.keys == nil {
		return false, nil
	}
	return d.submission.Repeats(t, s.keys.Open)
}

// seal seals what an operator sends to a sealed task, or to one that is not known here.
func (s *requests) seal(ctx context.Context, q *events.Request, t *events.Task) error {
	if s.keys == nil || t != nil && !events.IsSealed(t.Input) {
		return nil
	}
	for _, slot := range q.Content() {
		if events.IsSealed(*slot) {
			continue
		}
		if t == nil && q.Kind != events.RequestSignal {
			return problem(http.StatusServiceUnavailable, codeUnavailable, "This node cannot see the task at the moment, so it does not know for which subject to encrypt what you send. Send the request again: repeating it is safe.").retryAfter(time.Second)
		}
		var err error
		if t != nil {
			if p := erasedProblem(s.keys, t); p != nil {
				return p
			}
			*slot, err = s.keys.SealLike(t.Input, *slot)
		} else {
			if opened, err := s.keys.Open(*slot); err == nil {
				*slot = opened // sealed values in it would not be opened with the whole
			}
			*slot, err = s.keys.Seal(ctx, "", *slot)
		}
		if err != nil {
			return s.log.internal(ctx, "seal a request", err)
		}
	}
	return nil
}

// sealArgs seals the content in the arguments of a job for the namespace, because it goes to tasks of many subjects. The run of the job opens it, and
// seals it for each task.
func sealArgs(ctx context.Context, keys Keys, args json.RawMessage) (json.RawMessage, error) {
	var q events.Request
	var members map[string]json.RawMessage
	if keys == nil || json.Unmarshal(args, &q) != nil || json.Unmarshal(args, &members) != nil || len(q.Content()) == 0 {
		return args, nil
	}
	for _, slot := range q.Content() {
		sealed, err := keys.Seal(ctx, "", *slot)
		if err != nil {
			return nil, err
		}
		*slot = sealed
	}
	for name, value := range map[string]json.RawMessage{"payload": q.Payload, "output": q.Output, "with": q.With, "input": q.Input} {
		if len(value) > 0 {
			members[name] = value
		}
	}
	if q.Error != nil {
		var err error
		if members["error"], err = events.Marshal(q.Error); err != nil {
			return nil, err
		}
	}
	return events.Marshal(members)
}

// erasedProblem refuses what needs the content of a task that was erased; nil if it was not.
func erasedProblem(keys Keys, t *events.Task) *Problem {
	if keys == nil || !events.IsSealed(t.Input) {
		return nil
	}
	_, err := keys.Open(t.Input)
	if e, erased := errors.AsType[*events.ErasedError](err); erased {
		return refusedProblem(e.Error()+", and with it the key for what is sent to the task", t.State)
	}
	return nil
}

// opening opens the sealed values in all answers. They are the same bytes in a document, in a line and in an event of a stream.
func opening(keys Keys, next http.Handler) http.Handler {
	if keys == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := &openedAnswer{ResponseWriter: w, keys: keys}
		defer o.end()
		next.ServeHTTP(o, r)
	})
}

// openedAnswer opens the sealed values of an answer on their way.
type openedAnswer struct {
	http.ResponseWriter
	keys Keys
	// rest is the end of what was written, in which a sealed value may have begun.
	rest []byte
}

// Unwrap lets http.ResponseController reach the connection.
func (o *openedAnswer) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// WriteHeader leaves out the length, which changes.
func (o *openedAnswer) WriteHeader(status int) {
	o.Header().Del("Content-Length")
	o.ResponseWriter.WriteHeader(status)
}

// Write writes as much as is known to be complete.
func (o *openedAnswer) Write(p []byte) (int, error) {
	o.Header().Del("Content-Length")
	data := p
	if len(o.rest) > 0 {
		data = append(o.rest, p...)
	}
	out, rest := o.opened(data)
	o.rest = bytes.Clone(rest)
	if len(out) == 0 {
		return len(p), nil
	}
	if _, err := o.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end writes what looked like the beginning of a sealed value.
func (o *openedAnswer) end() {
	if len(o.rest) > 0 {
		_, _ = o.ResponseWriter.Write(o.rest)
		o.rest = nil
	}
}

// opened returns a text with its sealed values opened, and the end in which one may have begun. What cannot be opened stays as it is.
func (o *openedAnswer) opened(text []byte) (out, rest []byte) {
	for {
		from, to := events.FindSealed(text)
		if to < 0 {
			if from < 0 {
				from = len(text) - events.BeginsSealed(text)
			}
			if out == nil {
				return text[:from], text[from:]
			}
			return append(out, text[:from]...), text[from:]
		}
		value, err := o.keys.Open(text[from:to])
		switch e, erased := errors.AsType[*events.ErasedError](err); {
		case erased:
			value = e.Value()
		case err != nil:
			value = text[from:to]
		case len(value) == 0:
			value = []byte("null")
		}
		out = append(append(out, text[:from]...), value...)
		text = text[to:]
	}
}
