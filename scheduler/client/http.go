package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/pause"
)

// HTTPConfig says how to reach an engine's API.
type HTTPConfig struct {
	// URL is the URL of the API, such as http://127.0.0.1:8642.
	URL string
	// RetryFor is how long a submission or another call is sent again after a first try without an answer, or which the log did not
	// acknowledge. Each try waits for half a minute; one of many submissions for a second more per MiB. Default: DefaultRetryFor. Negative: it
	// is never sent again.
	RetryFor time.Duration
	// Token is sent with each call, if the engine needs one.
	Token string
	// Client makes the calls; by default the package creates one.
	Client *http.Client
	// Log takes a line that says what the client calls. Default: discarded.
	Log *slog.Logger
}

// DefaultRetryFor is longer than an engine takes to restart.
const DefaultRetryFor = 30 * time.Second

// HTTP submits through an engine's API. Open returns a client that also reads and steers tasks.
func HTTP(url string) (*Client, error) { return HTTPWith(HTTPConfig{URL: url}) }

// HTTPWith submits through an engine's API. It makes no call yet.
func HTTPWith(cfg HTTPConfig) (*Client, error) {
	w, err := newHTTPWay(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{way: w}, nil
}

func newHTTPWay(cfg HTTPConfig) (*httpWay, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("%q is not a URL such as http://127.0.0.1:8642", cfg.URL)
	}
	w := &httpWay{base: strings.TrimSuffix(cfg.URL, "/"), client: cfg.Client, token: cfg.Token, retryFor: cfg.RetryFor}
	if w.client == nil {
		w.own = &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: idleTimeout,
			WriteBufferSize: bufferBytes, ReadBufferSize: bufferBytes,
		}
		w.client = &http.Client{Transport: w.own}
	}
	if w.retryFor == 0 {
		w.retryFor = DefaultRetryFor
	}
	if cfg.Log != nil {
		cfg.Log.Info("client calls the engine", "url", u.Redacted(), "version", kafka.Version())
	}
	return w, nil
}

const (
	// idleConnections are kept for the next submissions: each goroutine that submits one by one needs one. With the default
	// of two, most of them would dial for each submission.
	idleConnections = 256
	// idleTimeout is below that of an engine, so that a connection is not used just when the engine closes it.
	idleTimeout = 90 * time.Second
	// bufferBytes is large enough for much of a batch, and small for a connection.
	bufferBytes = 32 << 10
)

// httpWay calls PUT for one submission and POST of NDJSON for many.
type httpWay struct {
	base     string
	token    string
	client   *http.Client
	own      *http.Transport
	retryFor time.Duration
	closed   atomic.Bool
}

func (w *httpWay) close() {
	w.closed.Store(true)
	if w.own != nil {
		w.own.CloseIdleConnections()
	}
}

// The pauses between two tries double, from retryFirst to retryMost.
const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 2 * time.Second
)

// submit tries until each draft has a final answer or the time is up.
func (w *httpWay) submit(ctx context.Context, drafts []draft) []Result {
	results := make([]Result, len(drafts))
	open := make([]int, len(drafts))
	for i := range drafts {
		open[i] = i
	}
	var end time.Time
	wait := retryFirst
	for {
		batch := drafts
		if len(open) < len(drafts) {
			batch = make([]draft, len(open))
			for i, at := range open {
				batch[i] = drafts[at]
			}
		}
		var left []int
		for i, r := range w.try(ctx, batch) {
			if errors.Is(r.Err, ErrClosed) && !end.IsZero() {
				continue // an earlier try may have taken effect
			}
			results[open[i]] = r
			if errors.Is(r.Err, ErrUnavailable) {
				left = append(left, open[i])
			}
		}
		if end.IsZero() { // the first try may have waited for long
			end = time.Now().Add(w.retryFor)
		}
		if open = left; len(open) == 0 || time.Now().After(end) || w.closed.Load() || !pause.For(ctx, wait/2+rand.N(wait/2)) {
			return results
		}
		wait = min(2*wait, retryMost)
	}
}

// send implements way.
func (w *httpWay) send(ctx context.Context, task string, s Signal) Result {
	r := Result{Receipt: Receipt{ID: task, Offset: -1}}
	text, err := json.Marshal(body{Reason: s.Reason, Signal: s.Name, Payload: s.Payload})
	if err != nil {
		r.Err = err
		return r
	}
	var a answer
	c := call{method: http.MethodPost, path: taskPath(task) + "/signal", body: text, content: "application/json", key: s.RequestID}
	c.engines = func() bool { return a.ID == task && a.Token != "" }
	if r.Err = w.insist(ctx, c, &a); r.Err == nil {
		r.Partition, r.Token, r.Known = a.Partition, a.Token, a.Offset == nil
		if a.Offset != nil {
			r.Offset = *a.Offset
		}
	}
	return r
}

func (w *httpWay) try(ctx context.Context, drafts []draft) []Result {
	if len(drafts) == 1 {
		return []Result{w.put(ctx, drafts[0])}
	}
	return w.post(ctx, drafts)
}

// answer is the API's answer to a submission: a receipt or a problem.
type answer struct {
	Line      int    `json:"line"`
	ID        string `json:"id"`
	Partition int32  `json:"partition"`
	Offset    *int64 `json:"offset"`
	Token     string `json:"token"`

	problem
}

func (a *answer) result(id string) Result {
	r := Result{Receipt: Receipt{ID: id, Partition: a.Partition, Offset: -1, Token: a.Token}}
	if a.Status < http.StatusMultipleChoices {
		if a.ID != id {
			return failed(id, fmt.Errorf("%w: the answer about task %q is not of a Sagalog engine", ErrUnavailable, id))
		}
		r.Known = a.Status == http.StatusOK
		if a.Offset != nil {
			r.Offset = *a.Offset
		}
		return r
	}
	r.Err = a.asError()
	return r
}

func failed(id string, err error) Result {
	return Result{Receipt: Receipt{ID: id, Offset: -1}, Err: err}
}

func (w *httpWay) put(ctx context.Context, d draft) Result {
	var a answer
	var err error
	c := call{method: http.MethodPut, path: taskPath(d.id), body: d.body, content: "application/json"}
	if a.Status, err = w.once(ctx, c, &a); err != nil {
		return failed(d.id, err)
	}
	return a.result(d.id)
}

func (w *httpWay) post(ctx context.Context, drafts []draft) []Result {
	results := make([]Result, len(drafts))
	missing := func(err error) []Result {
		for i, d := range drafts {
			if results[i].ID == "" {
				results[i] = failed(d.id, err)
			}
		}
		return results
	}
	if w.closed.Load() {
		return missing(fmt.Errorf("POST %s/v1/tasks: %w", w.base, ErrClosed))
	}
	size := len(drafts)
	for _, d := range drafts {
		size += len(d.body)
	}
	var body bytes.Buffer
	body.Grow(size)
	for _, d := range drafts {
		body.Write(d.body)
		body.WriteByte('\n')
	}
	bounded, cancel := context.WithTimeout(ctx, answerWithin+time.Second*time.Duration(size>>20))
	defer cancel()
	resp, err := w.call(bounded, call{method: http.MethodPost, path: "/v1/tasks", body: body.Bytes(), content: "application/x-ndjson"})
	if err != nil {
		return missing(unanswered(ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body) // what was read of it says enough
		return missing(refusal("POST "+w.base+"/v1/tasks", resp, b))
	}
	lines := bufio.NewReaderSize(resp.Body, bufferBytes)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return missing(unanswered(ctx, fmt.Errorf("POST %s/v1/tasks: the engine did not answer every submission: %w", w.base, err)))
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil || a.Line < 1 || a.Line > len(drafts) {
			return missing(fmt.Errorf("%w: POST %s/v1/tasks: the answer is not of a Sagalog engine", ErrUnavailable, w.base))
		}
		r := a.result(drafts[a.Line-1].id)
		if r.Err == nil && r.Token == "" && r.Offset >= 0 { // the lines of a batch have none
			r.Token = tokenOf(r.Partition, r.Offset)
		}
		results[a.Line-1] = r
	}
}
