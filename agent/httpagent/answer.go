package httpagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
)

// exchange is one request with the contexts and limits needed to read its answer.
type exchange struct {
	// outer is the context of the attempt, and ctx the context of this try, with the binding's timeout.
	outer, ctx context.Context
	binding    *Binding
	grant      *grant
	call       *call
	work       *events.Work
	// target names the request in messages.
	target      string
	connections *connections
	outputLimit int
}

// read turns a response into an outcome. The status decides (see doc.go), and the body is the output or the detail of the
// failure. A body is read up to a limit. If it is longer, the connection cannot be used again and is closed.
func (x *exchange) read(resp *http.Response) (json.RawMessage, *agent.Failure) {
	if slices.Contains(x.call.accepted, resp.StatusCode) {
		agent.Accepted(x.ctx)
		return nil, nil
	}
	undo := x.work.Operation == events.Undo
	if code := resp.StatusCode; !x.call.completes(code) {
		gone := undo && (code == http.StatusNotFound || code == http.StatusGone) && !slices.Contains(x.call.retryOn, code)
		if gone && x.mayBeGone() {
			return nil, nil
		}
		if code == http.StatusUnauthorized && x.binding.tokens != nil {
			x.binding.tokens.forget(x.grant.token)
		}
		f := x.classify(resp, time.Now())
		body, err := io.ReadAll(io.LimitReader(resp.Body, agent.DetailLimit+1))
		if err == nil {
			x.quote(f, resp.Header.Get("Content-Type"), body)
		}
		if gone {
			f.Err = fmt.Errorf("%w. %s", f.Err, goneAfterDo)
		}
		return nil, f
	}
	if x.connections.count() > 1 {
		agent.InDoubt(x.ctx) // the service may still be working on the first sending
	}
	body, err := x.body(resp)
	if undo {
		// Nothing reads the output of an undo, so the status is the whole answer.
		return nil, nil
	}
	if err != nil {
		return nil, x.networkFailure(err)
	}
	return x.output(resp, body)
}

// goneAfterDo says what an operator has to know before retrying an undo that found nothing: mayBeGone is true for its second attempt.
const goneAfterDo = "The step had completed, so the undo may look in the wrong place. " +
	"Undo the step by hand if it is not undone: a retry takes this answer as proof that it is"

// mayBeGone reports whether "not found" makes an undo a success: the do may never have happened, or an earlier request
// of this undo may have removed the thing. After a do that reported completion, the first request of the undo must find
// it, unless the binding says otherwise. Attempts are numbered through all runs, so in a later run the number says nothing.
func (x *exchange) mayBeGone() bool {
	a, _ := agent.FromContext(x.ctx)
	return x.call.gone || len(x.work.Output) == 0 || x.work.Attempt > 1 && x.work.Run <= 1 || a.Try > 1 || a.Repeated || x.connections.count() > 1
}

// body reads at most one byte more than the limit, into a buffer of the announced length. (Less may come: the answer to a
// HEAD announces a body that it does not have.)
func (x *exchange) body(resp *http.Response) ([]byte, error) {
	var b bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= int64(x.outputLimit) {
		b.Grow(int(n) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(resp.Body, int64(x.outputLimit)+1))
	return b.Bytes(), err
}

// classify reads a status that is not 2xx.
func (x *exchange) classify(resp *http.Response, now time.Time) *agent.Failure {
	code := resp.StatusCode
	f := &agent.Failure{
		Class: events.ClassPermanent, Effect: x.effect(code), Code: "http_" + strconv.Itoa(code),
		Err: fmt.Errorf("%s answered %s", x.target, strings.TrimSpace(strconv.Itoa(code)+" "+http.StatusText(code))),
	}
	switch {
	case code == http.StatusUnauthorized && x.grant.kept:
		f.Class = events.ClassRetryable // the next try gets a new token
	case slices.Contains(x.call.retryOn, code),
		code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		f.Class = events.ClassRetryable
		f.RetryAfter = parseRetryAfter(resp.Header, now)
	case code >= 300 && code < 400:
		f.Err = fmt.Errorf("%w; redirects are not followed", f.Err)
	}
	return f
}

// effect says what an attempt that was answered with this status may have changed. The status speaks for the only request that
// was sent, and not for an earlier one on a connection that broke.
//
// A proxy answers 408, 502, 503, 504 and 52x for a service that may still be working on the request.
func (x *exchange) effect(code int) events.Effect {
	switch {
	case x.connections.count() != 1:
		return inDoubt
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout:
		return events.EffectNone
	case code == http.StatusInternalServerError, code == http.StatusNotImplemented, code >= 400 && x.binding.direct:
		return doneUnknown
	default:
		return inDoubt
	}
}

// parseRetryAfter reads both forms of the header: seconds, and a date, which is compared with the server's own clock if the
// answer has a Date. Anything else counts as absent.
func parseRetryAfter(h http.Header, now time.Time) time.Duration {
	s := strings.TrimSpace(h.Get("Retry-After"))
	if s == "" {
		return 0
	}
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0
	}
	if server, err := http.ParseTime(h.Get("Date")); err == nil {
		now = server
	}
	return max(at.Sub(now), 0)
}

// output returns the body of a success as JSON.
func (x *exchange) output(resp *http.Response, body []byte) (json.RawMessage, *agent.Failure) {
	permanent := func(code string, err error) *agent.Failure {
		effect := doneUnknown
		if x.connections.count() != 1 {
			effect = inDoubt
		}
		return &agent.Failure{Class: events.ClassPermanent, Effect: effect, Code: code, Err: err}
	}
	if len(body) > x.outputLimit {
		return nil, permanent("output_limit", fmt.Errorf("output is over the limit: %s answered more than %d bytes", x.target, x.outputLimit))
	}
	out, err := decodeBody(resp.Header.Get("Content-Type"), body)
	if err != nil {
		return nil, permanent("bad_answer", fmt.Errorf("%s answered %d, but %w", x.target, resp.StatusCode, err))
	}
	if x.call.output == nil {
		return out, nil
	}
	if out, err = x.shape(resp, out); err != nil {
		return nil, permanent("expression", fmt.Errorf("%s answered %d, but output: %w", x.target, resp.StatusCode, err))
	}
	return out, nil
}

// networkFailure classifies a request without a complete answer. The text of the error is used only if it cannot contain part
// of the answer, because net/http quotes input that it cannot parse.
func (x *exchange) networkFailure(err error) *agent.Failure {
	f := &agent.Failure{Class: events.ClassRetryable, Effect: inDoubt, Code: "network"}
	connected := x.connections.count() > 0
	if !connected {
		f.Effect = events.EffectNone
	}
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	var text string
	switch {
	case x.outer.Err() != nil && errors.Is(context.Cause(x.outer), context.Canceled):
		f.Code, text = "stopped", "the call was broken off, because its attempt was no longer needed; "+x.connections.left()
	case x.outer.Err() != nil:
		f.Code, text = "timeout", "no answer within the time of the attempt; "+x.connections.left()
	case x.ctx.Err() != nil:
		f.Code, text = "timeout", fmt.Sprintf("no answer within %v; %s", x.binding.timeout, x.connections.left())
	case !connected:
		f.Code, text = "connect", "connect: "+withoutAddress(err)
	default:
		text = breakage(err)
	}
	f.Err = fmt.Errorf("%s: %s", x.target, text)
	return f
}

// breakage says how a connection or an answer on it went wrong.
func breakage(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the answer was complete"
	case errors.As(err, &op):
		return "the connection broke: " + withoutAddress(op)
	case strings.Contains(err.Error(), "http2: ") || strings.HasPrefix(err.Error(), "stream error"):
		return "the service ended the HTTP/2 stream"
	case strings.Contains(err.Error(), "headers exceeded"):
		return "the headers of the answer are too long"
	default:
		return "the answer is not HTTP"
	}
}

// withoutAddress returns the text of a network error without the addresses behind a name, and without the name server's address:
// the message becomes a fact, and facts know hosts only as they are configured.
func withoutAddress(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		switch {
		case dns.IsNotFound:
			return "no such host"
		case dns.IsTimeout:
			return "the host could not be looked up in time"
		}
		return "the host could not be looked up"
	}
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Err == nil {
		return err.Error()
	}
	if call, ok := errors.AsType[*os.SyscallError](op.Err); ok {
		return call.Err.Error()
	}
	return op.Err.Error()
}
