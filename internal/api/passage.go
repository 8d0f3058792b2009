package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

const (
	// routeLook is how often a wait, a stream or a forwarded request looks whether its partition is still there.
	routeLook = 250 * time.Millisecond
	// lostFor is how long nobody may be known to own the partition before such a request gives its node up: a take-over
	// takes less, and its end names the next node.
	lostFor = 5 * time.Second
	// streamPatience is how long a stream that is being opened waits for an owner. Browsers do not ask again after a 503.
	streamPatience = 10 * time.Second
	// passagePause is between two looks for an owner, and between two calls of one that does not answer.
	passagePause = 100 * time.Millisecond
)

// passage is a request about one task on its way to where the task's partition is: this node's store, or the owner's
// API. While a partition is taken over, a request that waits anyway (?wait=, token=, a stream that is being opened, a
// cancel or retry) is bridged: it goes on at the next owner, as long as it would have waited. Any other is tried once
// more if there is another owner by then, and else answered 503.
type passage struct {
	s *Server
	w http.ResponseWriter
	r *http.Request
	// local answers from this node's store.
	local     http.Handler
	partition int32
	// body is the whole body, so that it can be sent again.
	body  []byte
	begun time.Time
	// patience is how long an owner is looked for, and the waiting that the request asks for.
	patience time.Duration
	// waits says that it may be a long time until the answer is there or has ended.
	waits bool
}

// passages are the calls that are answered where the task's partition is. Submissions are not among them: the log takes
// them anywhere, and none fails because a node is down.
var passages = map[string]bool{
	"GET /v1/tasks/{id}":         true,
	"GET /v1/tasks/{id}/history": true,
	"POST /v1/tasks/{id}/cancel": true,
	"POST /v1/tasks/{id}/retry":  true,
}

// carry answers a request where its partition is; r.Pattern is known. What is about no single task is local.
func (s *Server) carry(w http.ResponseWriter, r *http.Request, local http.Handler) {
	id, ok := taskOf(r.URL.EscapedPath())
	if !passages[r.Pattern] || !ok || events.CheckTaskID(id) != nil {
		local.ServeHTTP(w, r)
		return
	}
	p := &passage{s: s, w: w, r: r.Clone(r.Context()), local: local, partition: events.Home(id, s.cfg.Partitions), begun: time.Now()}
	if err := p.prepare(); err != nil {
		writeProblem(w, r, asProblem(err))
		return
	}
	if r.Header.Get(headerForwarded) != "" {
		p.arrive()
		return
	}
	p.run()
}

// taskOf returns the ID in /v1/tasks/{id} or below it.
func taskOf(escaped string) (string, bool) {
	parts := strings.Split(escaped, "/")
	if len(parts) < 4 {
		return "", false
	}
	id, err := url.PathUnescape(parts[3])
	return id, err == nil
}

// prepare reads what a second attempt needs.
func (p *passage) prepare() error {
	if p.r.Method == http.MethodPost {
		// The ID of the request makes a second attempt harmless: the log keeps the first.
		if p.r.Header.Get("Idempotency-Key") == "" {
			p.r.Header.Set("Idempotency-Key", newID())
		}
		p.patience = catchUpTimeout
		var err error
		p.body, err = exchange{p.r, p.w}.readBody(requestBytes, "a request")
		return err
	}
	q := p.r.URL.Query()
	switch {
	case strings.HasSuffix(p.r.Pattern, "/history"):
		if strings.Contains(p.r.Header.Get("Accept"), contentEventStream) {
			p.patience, p.waits = streamPatience, true
		}
	case q.Get("wait") != "":
		if wait, err := parseWait(q.Get("wait")); err == nil {
			p.patience, p.waits = *wait, true
		}
	case q.Get("token") != "":
		p.patience, p.waits = DefaultTokenWait, true
	}
	return nil
}

// arrive answers a request that another node passed on: here, or not at all.
func (p *passage) arrive() {
	at := p.s.cfg.Cluster.Route(p.partition)
	if !at.Here || !p.attempt(at, true) {
		writeProblem(p.w, p.r, takeoverProblem(p.partition).with(headerMoved, "1"))
	}
}

// run tries until the request is answered, or its time is over.
func (p *passage) run() {
	var failed Route // where the last attempt failed
	for tries, late := 0, 0; ; tries++ {
		over := time.Since(p.begun) >= p.patience || p.r.Context().Err() != nil || p.s.stopping.Err() != nil
		at := p.s.cfg.Cluster.Route(p.partition)
		switch {
		case at.known() && (!over || late < 2 && at != failed):
			if over {
				late++
			}
			if p.attempt(at, tries == 0) {
				return
			}
			failed = at
		case over, at.Node != "" && !at.known():
			p.giveUp(at)
			return
		}
		// The next owner is asked at once, but two nodes that both deny it are not asked in a row for ever.
		if next := p.s.cfg.Cluster.Route(p.partition); !over && (tries > 0 || next == failed || !next.known()) {
			pause(p.r.Context(), passagePause)
		}
	}
}

// known says whether there is somebody to ask.
func (r Route) known() bool { return r.Here || callable(r.Addr) }

// attempt returns false where the partition turned out to be elsewhere, or its node did not answer; nothing was written
// then.
func (p *passage) attempt(at Route, first bool) bool {
	ctx := p.r.Context()
	if !at.Here || p.waits {
		var done func()
		ctx, done = p.s.watch(ctx, p.partition, at)
		defer done()
	}
	left := max(0, p.patience-time.Since(p.begun))
	r := p.request(ctx, left, first)
	if at.Here {
		return p.here(r)
	}
	if p.waits { // what waits ends when a stop begins; anything else is finished
		long, cancel := p.s.untilStop(ctx)
		defer cancel()
		r = r.WithContext(long)
	}
	within := answerWithin
	if !strings.HasSuffix(p.r.Pattern, "/history") {
		within += left
	}
	return p.s.forwarder.pass(p.w, r, passing{to: at, within: within, waits: p.waits}) == nil
}

// request returns the request as it goes out, or to our own handlers. All but the first wait only as long as is left.
func (p *passage) request(ctx context.Context, left time.Duration, first bool) *http.Request {
	r := p.r.Clone(ctx)
	r.TransferEncoding, r.ContentLength = nil, int64(len(p.body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p.body)), nil }
	r.Body, _ = r.GetBody()
	if q := r.URL.Query(); !first && p.waits && q.Get("wait") != "" {
		q.Set("wait", left.Round(time.Millisecond).String())
		r.URL.RawQuery = q.Encode()
	}
	return r
}

// here answers from this node's store, if the partition is still here when the answer is.
func (p *passage) here(r *http.Request) bool {
	h := &heldAnswer{w: p.w, header: p.w.Header().Clone(), stands: func(status int) bool {
		if r.Method == http.MethodPost && status < http.StatusBadRequest {
			return true // the log holds it
		}
		if errors.Is(context.Cause(r.Context()), errMoved) {
			return false // a wait was broken off
		}
		if p.waits && p.s.stopping.Err() != nil && r.Header.Get(headerForwarded) != "" {
			return false // this node goes, and the one that asked can go on waiting elsewhere
		}
		return p.s.cfg.Cluster.Route(p.partition).Here
	}}
	p.local.ServeHTTP(h, r)
	h.finish()
	return !h.dropped
}

// giveUp answers when the time is over. A request to change a task goes to the log all the same: its owner, once there
// is one, knows what to do with it.
func (p *passage) giveUp(at Route) {
	if !at.known() {
		p.s.metrics.forwarded.WithLabelValues(outcomeNowhere).Inc()
	}
	if p.r.Method == http.MethodPost {
		ctx := context.WithValue(p.r.Context(), unseenKey{}, true)
		p.local.ServeHTTP(p.w, p.request(ctx, 0, true))
		return
	}
	if at.Node != "" && at.Addr == "" {
		writeProblem(p.w, p.r, noAPIProblem(at.Node, p.partition))
		return
	}
	if stopped := p.s.stoppedProblem(p.partition); stopped != nil {
		writeProblem(p.w, p.r, stopped)
		return
	}
	writeProblem(p.w, p.r, takeoverProblem(p.partition))
}

type unseenKey struct{}

// unseen says that the task of a request is not to be looked for: its partition is nowhere that can be asked.
func unseen(ctx context.Context) bool { return ctx.Value(unseenKey{}) != nil }

// watch returns a context that ends with errMoved when the partition is not any more where a request about it is.
func (s *Server) watch(ctx context.Context, partition int32, at Route) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		looks := time.NewTicker(routeLook)
		defer looks.Stop()
		var lost time.Duration
		for {
			select {
			case <-ctx.Done():
				return
			case <-looks.C:
			}
			now := s.cfg.Cluster.Route(partition)
			switch {
			case now == at:
				lost = 0
			case now.known():
				cancel(errMoved)
				return
			default:
				if lost += routeLook; lost >= lostFor {
					cancel(errMoved)
					return
				}
			}
		}
	})
	return ctx, func() { cancel(nil); wait.Wait() }
}

// heldAnswer is an answer of our own handlers that is let go only if it still stands when it is there: its partition
// may have left meanwhile, and what was read then proves nothing.
type heldAnswer struct {
	w       http.ResponseWriter
	header  http.Header
	stands  func(status int) bool
	begun   bool
	dropped bool
}

// Header returns headers that reach the client only with an answer that stands.
func (h *heldAnswer) Header() http.Header { return h.header }

func (h *heldAnswer) WriteHeader(status int) {
	if h.begun {
		return
	}
	h.begun = true
	if h.dropped = !h.stands(status); h.dropped {
		return
	}
	clear(h.w.Header())
	maps.Copy(h.w.Header(), h.header)
	h.w.WriteHeader(status)
}

func (h *heldAnswer) Write(b []byte) (int, error) {
	h.finish()
	if h.dropped {
		return len(b), nil
	}
	return h.w.Write(b)
}

// finish begins an answer that its handler left empty.
func (h *heldAnswer) finish() { h.WriteHeader(http.StatusOK) }

// FlushError is what http.ResponseController calls. A stream ends by its error.
func (h *heldAnswer) FlushError() error {
	h.finish()
	if h.dropped {
		return errMoved
	}
	return http.NewResponseController(h.w).Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (h *heldAnswer) Unwrap() http.ResponseWriter { return h.w }
