package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/sagalog/sagalog/events"
)

// answer is a response and what its reading needs.
type answer struct {
	// outer is the attempt's context, and ctx that of this try, with the binding's timeout.
	outer, ctx  context.Context
	binding     *Binding
	method      string
	response    *http.Response
	outputLimit int
}

// read makes the outcome of a response: its status decides, its body is the output or the detail of the failure.
// It reads no further than a limit; a longer rest costs the connection, which is closed then.
//
//	2xx                  completed
//	408 425 429 5xx      retryable, effect unknown, Retry-After honoured
//	other 4xx            permanent, effect none
//	3xx and the rest     permanent, effect unknown: redirects are not followed
func (a answer) read() (json.RawMessage, *Failure) {
	code := a.response.StatusCode
	if code < 200 || code > 299 {
		f := classify(a.method, a.response, time.Now())
		body, err := io.ReadAll(io.LimitReader(a.response.Body, detailLimit+1))
		if err == nil && len(body) <= detailLimit {
			f.Detail, _ = decodeBody(a.response.Header.Get("Content-Type"), body)
		}
		return nil, f
	}
	body, err := a.body()
	if err != nil {
		return nil, networkFailure(breakage{outer: a.outer, ctx: a.ctx, timeout: a.binding.timeout, connected: true}, err)
	}
	return a.output(body)
}

// body reads up to a byte more than the limit, into memory for as much as is announced. (Less may come: the answer to a HEAD
// announces what it does not bring.)
func (a answer) body() ([]byte, error) {
	var b bytes.Buffer
	if n := a.response.ContentLength; n > 0 && n <= int64(a.outputLimit) {
		b.Grow(int(n) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(a.response.Body, int64(a.outputLimit)+1))
	return b.Bytes(), err
}

// classify reads a status that is not 2xx.
func classify(method string, resp *http.Response, now time.Time) *Failure {
	code := resp.StatusCode
	f := &Failure{
		Class: events.ClassPermanent, Effect: events.EffectUnknown, Code: "http_" + strconv.Itoa(code),
		Err: fmt.Errorf("%s answered %d %s", method, code, http.StatusText(code)),
	}
	switch {
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		f.Class = events.ClassRetryable
		f.RetryAfter = parseRetryAfter(resp.Header, now)
	case code >= 400:
		f.Effect = events.EffectNone
	case code >= 300:
		f.Err = fmt.Errorf("%w; redirects are not followed", f.Err)
	}
	return f
}

// parseRetryAfter reads both forms of the header: seconds, and a date, which is compared with the server's own clock
// where it tells that. Garbage counts as absent.
func parseRetryAfter(h http.Header, now time.Time) time.Duration {
	s := strings.TrimSpace(h.Get("Retry-After"))
	if s == "" {
		return 0
	}
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, retryAfterMax)
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0
	}
	if server, err := http.ParseTime(h.Get("Date")); err == nil {
		now = server
	}
	return min(max(at.Sub(now), 0), retryAfterMax)
}

// output returns the body of a success as JSON.
func (a answer) output(body []byte) (json.RawMessage, *Failure) {
	permanent := func(code string, err error) *Failure {
		return &Failure{Class: events.ClassPermanent, Effect: events.EffectUnknown, Code: code, Err: err}
	}
	if len(body) > a.outputLimit {
		return nil, permanent("output_limit", fmt.Errorf("%w: %s answered more than %d bytes", ErrOutputLimit, a.method, a.outputLimit))
	}
	out, err := decodeBody(a.response.Header.Get("Content-Type"), body)
	if err != nil {
		return nil, permanent("bad_answer", fmt.Errorf("%s answered %d, but %w", a.method, a.response.StatusCode, err))
	}
	return out, nil
}

var errNotJSON = errors.New("the body is not the JSON that its content type promises")

// decodeBody makes JSON of a body: null of an empty one; JSON stays as it is if the content type says so, and an
// object or array also without that (many services forget the type, while a text such as 007 must not become a
// number on some days); other text becomes a string, and bytes that are no text {"base64": "..."}.
func decodeBody(contentType string, body []byte) (json.RawMessage, error) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	trimmed := bytes.TrimSpace(body)
	declared := isJSON(contentType)
	if len(body) == 0 || declared && len(trimmed) == 0 {
		return json.RawMessage("null"), nil
	}
	structured := len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[')
	if (declared || structured) && json.Valid(trimmed) {
		if !utf8.Valid(trimmed) {
			// JSON is UTF-8; what is not is replaced here, since facts and state must not hold it.
			trimmed = bytes.ToValidUTF8(trimmed, []byte("\uFFFD"))
		}
		return events.Compact(trimmed)
	}
	if declared {
		return nil, errNotJSON
	}
	if !utf8.Valid(body) {
		return events.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(body)})
	}
	return events.Marshal(string(body))
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json"))
}

// breakage is when a request broke.
type breakage struct {
	outer, ctx context.Context
	timeout    time.Duration
	// connected says that a connection was had, so that something may have been sent.
	connected bool
}

// networkFailure says what a request without a whole answer means. The text of the error is taken only where no
// answer can stand in it: net/http quotes what it cannot parse.
func networkFailure(b breakage, err error) *Failure {
	f := &Failure{Class: events.ClassRetryable, Effect: events.EffectUnknown, Code: "network"}
	if !b.connected {
		f.Effect = events.EffectNone
	}
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	switch {
	case b.outer.Err() != nil:
		f.Code, f.Err = "timeout", errors.New("no answer within the time of the attempt")
	case b.ctx.Err() != nil:
		f.Code, f.Err = "timeout", fmt.Errorf("no answer within %v", b.timeout)
	case !b.connected:
		f.Code, f.Err = "connect", fmt.Errorf("connect: %w", err)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		f.Err = errors.New("the connection was reset")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		f.Err = errors.New("the connection was closed before the answer was complete")
	default:
		f.Err = errors.New("the connection broke, or the answer is not HTTP")
	}
	return f
}
