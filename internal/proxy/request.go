package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/sagalog/sagalog/internal/pause"
)

const (
	// routeEvery is how often a wait, a stream or a request that was passed on checks whether its partition is still there.
	routeEvery = 250 * time.Millisecond
	// lostFor is how long no owner may be known before such a request gives up its node: a take-over takes less, and its end
	// names the next node.
	lostFor = 5 * time.Second
	// retryPause is between two looks for an owner, and between two calls to one that does not answer.
	retryPause = 100 * time.Millisecond
	// staleTries is more than one because an owner may turn up during the read, and be gone again.
	staleTries = 2
)

// Kind says how long the answer to a request takes.
type Kind int

const (
	// Quick is answered at once.
	Quick Kind = 0
	// Waiting is answered when something happens, or when its wait is over.
	Waiting Kind = 1
	// Streaming begins at once and lasts.
	Streaming Kind = 2
)

// Request is a request about one partition.
//
// While a partition is taken over, a request with patience continues at the next owner. A request without patience is tried once
// more if there is another owner by then.
type Request struct {
	Partition int32
	Kind      Kind
	// Body is the whole body, so that it can be sent again.
	Body []byte
	// Patience is how long to look for an owner, the wait of a Waiting request included.
	Patience time.Duration
	// Within is how long the owner may take, Patience not included; default AnswerWithin. It is for what is known to take long.
	Within time.Duration
	// Local answers from this node's store.
	Local http.Handler
	// Unanswered answers if no owner did; at is where the partition was last.
	Unanswered func(w http.ResponseWriter, r *http.Request, at Route)
}

// Serve makes the node that has the partition answer the request. The query parameter wait is the wait of a Waiting
// request: when it continues at another owner, it waits only for the remaining time.
func (p *Proxy) Serve(w http.ResponseWriter, r *http.Request, q Request) {
	t := &transfer{Request: q, p: p, w: w, r: r, begun: time.Now()}
	if r.Header.Get(HeaderForwarded) == "" {
		t.run()
	} else if at := p.cfg.Router.Route(q.Partition); !at.Here || !t.try(at, true) {
		p.refuse(w, r, q.Partition)
	}
}

// transfer is a Request on its way.
type transfer struct {
	Request
	p     *Proxy
	w     http.ResponseWriter
	r     *http.Request
	begun time.Time
}

// run tries until the request is answered or its patience is over.
func (t *transfer) run() {
	var failed Route // where the last try failed
	for tries, late := 0, 0; ; tries++ {
		over := t.left() == 0 || t.r.Context().Err() != nil || t.p.cfg.Stopping.Err() != nil
		at := t.p.cfg.Router.Route(t.Partition)
		switch {
		case at.Known() && (!over || late < 2 && at != failed):
			if over {
				late++
			}
			if t.try(at, tries == 0) {
				return
			}
			failed = at
		case at.Stale && t.Kind == Quick && t.r.Method != http.MethodPost && tries < staleTries:
			if t.try(at, tries == 0) {
				return
			}
		case over, at.Node != "" && !at.Known():
			if !at.Known() {
				t.p.outcomes.WithLabelValues(outcomeNowhere).Inc()
			}
			t.Unanswered(t.w, t.request(t.r.Context(), true), at)
			return
		}
		// The next owner is asked at once, but two nodes that both deny it are not asked in a tight loop.
		if next := t.p.cfg.Router.Route(t.Partition); !over && (tries > 0 || next == failed || !next.Known()) {
			pause.For(t.r.Context(), retryPause)
		}
	}
}

func (t *transfer) left() time.Duration { return max(0, t.Patience-time.Since(t.begun)) }

// try returns false if the partition turned out to be elsewhere, or its node did not answer. Then nothing was written.
func (t *transfer) try(at Route, first bool) bool {
	ctx := t.r.Context()
	if !at.Here || t.Kind != Quick {
		var done func()
		ctx, done = t.p.watch(ctx, t.Partition, at)
		defer done()
	}
	r := t.request(ctx, first)
	if at.Readable() {
		return t.local(r, at)
	}
	if t.Kind != Quick { // it ends when this node begins to stop; anything else is finished
		long, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(t.p.cfg.Stopping, cancel)()
		r = r.WithContext(long)
	}
	return t.send(r, at) == nil
}

// request returns the request for the next try. All tries but the first wait only for the remaining time.
func (t *transfer) request(ctx context.Context, first bool) *http.Request {
	r := t.r.Clone(ctx)
	r.TransferEncoding, r.ContentLength = nil, int64(len(t.Body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(t.Body)), nil }
	r.Body, _ = r.GetBody()
	if q := r.URL.Query(); !first && t.Kind != Quick && q.Get("wait") != "" {
		q.Set("wait", t.left().Round(time.Millisecond).String())
		r.URL.RawQuery = q.Encode()
	}
	return r
}

// local answers from this node's store, if the partition is still here when the answer begins.
func (t *transfer) local(r *http.Request, at Route) bool {
	h := &heldAnswer{w: t.w, header: t.w.Header().Clone(), stands: func(status int) bool {
		if r.Method == http.MethodPost && status < http.StatusBadRequest {
			return true // the log holds it
		}
		if errors.Is(context.Cause(r.Context()), ErrMoved) {
			return false // a wait was broken off
		}
		if t.Kind != Quick && t.p.cfg.Stopping.Err() != nil && r.Header.Get(HeaderForwarded) != "" {
			return false // this node is stopping, and the node that asked can wait elsewhere
		}
		now := t.p.cfg.Router.Route(t.Partition)
		return now.Here || now.Stale && at.Stale
	}}
	t.Local.ServeHTTP(h, r)
	h.finish()
	return !h.dropped
}

// send makes another node answer the request. On error nothing was written to the client. An answer that breaks off ends the
// exchange with http.ErrAbortHandler: the client must see that it is incomplete.
func (t *transfer) send(r *http.Request, to Route) (err error) {
	p := t.p
	outcome := outcomeCut
	defer func() {
		if outcome != outcomeAnswered && r.Context().Err() != nil && !errors.Is(context.Cause(r.Context()), ErrMoved) {
			outcome = outcomeCancelled
		}
		p.outcomes.WithLabelValues(outcome).Inc()
	}()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	within, pool := cmp.Or(t.Within, AnswerWithin)+t.left(), p.quick
	if t.Kind != Quick || t.Within > AnswerWithin {
		pool = p.long
	}
	if t.Kind == Streaming {
		within = AnswerWithin
	}
	late := time.AfterFunc(within, func() { cancel(errSilent) })
	defer late.Stop()
	out := &foreignAnswer{ResponseWriter: t.w, header: http.Header{}}
	reverse := httputil.ReverseProxy{
		Transport: pool,
		Rewrite: func(q *httputil.ProxyRequest) {
			p.address(q.Out, to)
			q.Out.URL.RawQuery = q.In.URL.RawQuery
			p.sign(q.Out, t.Body)
		},
		ModifyResponse: func(resp *http.Response) error {
			late.Stop()
			if err := p.check(resp, to); err != nil {
				return err
			}
			out.begin(resp)
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, e error) { err = e },
		ErrorLog:     slog.NewLogLogger(p.cfg.Logger.Handler(), slog.LevelDebug),
	}
	reverse.ServeHTTP(out, r.WithContext(ctx))
	if err != nil {
		err = p.failed(ctx, to, err)
	}
	outcome = outcomeOf(err)
	return err
}

// watch returns a context that ends with ErrMoved when the partition has left the place of a request about it.
func (p *Proxy) watch(ctx context.Context, partition int32, at Route) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		ticks := time.NewTicker(routeEvery)
		defer ticks.Stop()
		var lost time.Duration
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			now := p.cfg.Router.Route(partition)
			switch {
			case now == at:
				lost = 0
			case now.Known():
				cancel(ErrMoved)
				return
			default:
				if lost += routeEvery; lost >= lostFor {
					cancel(ErrMoved)
					return
				}
			}
		}
	})
	return ctx, func() { cancel(nil); wait.Wait() }
}
