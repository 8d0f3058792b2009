package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The headers between nodes. They are no part of the API: a client gains nothing by them, since they only ever make a
// node answer less.
const (
	// headerForwarded marks a request that a node passed on, and names the node that it is for. Such a request is never
	// passed on again: nodes that disagree about an owner for a moment would send it in a circle.
	headerForwarded = "Sagalog-Forwarded"
	// headerAnswered names the node that answers such a request. An answer without it comes from something else, which
	// has got the address of a node that is gone.
	headerAnswered = "Sagalog-Answered"
	// headerMoved says in such an answer that the partition is not there, and to be looked for anew.
	headerMoved = "Sagalog-Moved"
	// headerPartitions restricts a list that a node asks of another to these partitions: "1,3,5".
	headerPartitions = "Sagalog-Partitions"
)

// The bounds of what goes to other nodes.
const (
	// dialTimeout is generous within a data centre. What takes longer is down, and its partitions are about to move.
	dialTimeout = time.Second
	// answerWithin is how long an owner may think, beside what the request itself waits for.
	answerWithin = 5 * time.Second
	// quickConns and waitingConns bound the connections to one node. Waits and streams hold theirs for as long as they
	// last, so they have a pool of their own, and reads do not stand in line behind them.
	quickConns   = 64
	waitingConns = 2048
	// idleConns is what a steady load of reads uses again and again.
	idleConns = 16
	// idleFor is below idleTimeout, after which the other end closes: so a request rarely meets a closing connection.
	idleFor = time.Minute
	// askedBytes bounds one answer that is merged in memory. A page of a list is cut far below it (listBytes); only a
	// single huge task can come near.
	askedBytes = 64 << 20
)

// The outcomes of sagalog_api_forwarded_total.
const (
	// outcomeAnswered: the owner answered, whatever it said.
	outcomeAnswered = "answered"
	// outcomeMoved: the partition has left the node that was asked.
	outcomeMoved = "moved"
	// outcomeUnreachable: nobody answered there in time, or not the node that was meant.
	outcomeUnreachable = "unreachable"
	// outcomeCut: the answer broke off in the middle.
	outcomeCut = "cut"
	// outcomeCancelled: the client hung up, or this node stops.
	outcomeCancelled = "cancelled"
	// outcomeNowhere: no owner was known.
	outcomeNowhere = "nowhere"
)

var outcomes = []string{outcomeAnswered, outcomeMoved, outcomeUnreachable, outcomeCut, outcomeCancelled, outcomeNowhere}

// errMoved says that the partition is not (any more) where the request went.
var errMoved = errors.New("the partition has moved")

var (
	errSilent  = errors.New("no answer in time")
	errForeign = errors.New("something else answers at the address of the node")
)

// forwarder passes requests to other nodes.
type forwarder struct {
	namespaceID string
	// self is this node's identity.
	self     string
	quick    *http.Transport
	waiting  *http.Transport
	outcomes *prometheus.CounterVec
	log      *slog.Logger
	// warned is when an unreachable node was last logged, in Unix seconds.
	warned atomic.Int64
}

func newForwarder(cfg *Config, m *metrics) *forwarder {
	f := &forwarder{
		namespaceID: cfg.NamespaceID, quick: transport(quickConns), waiting: transport(waitingConns),
		outcomes: m.forwarded, log: cfg.Logger,
	}
	f.self = f.identity(cfg.Node)
	return f
}

// transport knows no proxy of the environment: nodes are neighbours.
func transport(conns int) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		MaxConnsPerHost:     conns,
		MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout:     idleFor,
		// Answers pass as they are.
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

func (f *forwarder) close() {
	f.quick.CloseIdleConnections()
	f.waiting.CloseIdleConnections()
}

// identity is what nodes call each other by: two clusters whose nodes have the same names may well share a machine.
func (f *forwarder) identity(node string) string {
	return url.PathEscape(f.namespaceID) + "/" + url.PathEscape(node)
}

// passing is one request on its way to another node.
type passing struct {
	to Route
	// within is how long the headers of the answer may take.
	within time.Duration
	// waits says that the answer may be a long time coming.
	waits bool
}

// pass has another node answer the request. On error nothing was written to w. An answer that breaks off ends the
// exchange by http.ErrAbortHandler, as is the way of the reverse proxy: the client must see that it is not whole.
func (f *forwarder) pass(w http.ResponseWriter, r *http.Request, p passing) (err error) {
	outcome := outcomeCut
	defer func() {
		if outcome != outcomeAnswered && r.Context().Err() != nil && !errors.Is(context.Cause(r.Context()), errMoved) {
			outcome = outcomeCancelled
		}
		f.outcomes.WithLabelValues(outcome).Inc()
	}()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	late := time.AfterFunc(p.within, func() { cancel(errSilent) })
	defer late.Stop()
	pool := f.quick
	if p.waits {
		pool = f.waiting
	}
	out := &passedAnswer{ResponseWriter: w}
	proxy := httputil.ReverseProxy{
		Transport: pool,
		Rewrite:   func(q *httputil.ProxyRequest) { f.address(q.Out, p.to); q.Out.URL.RawQuery = q.In.URL.RawQuery },
		ModifyResponse: func(resp *http.Response) error {
			late.Stop()
			if err := f.check(resp, p.to); err != nil {
				return err
			}
			out.take(resp)
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, e error) { err = e },
		ErrorLog:     slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
	}
	proxy.ServeHTTP(out, r.WithContext(ctx))
	if err != nil {
		err = f.failed(ctx, p.to, err)
	}
	outcome = outcomeOf(err)
	return err
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outcomeAnswered
	case errors.Is(err, errMoved):
		return outcomeMoved
	}
	return outcomeUnreachable
}

// failed tells the operator of a node that does not answer, once in a while.
func (f *forwarder) failed(ctx context.Context, to Route, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, errMoved) || errors.Is(err, context.Canceled) {
		return err
	}
	now, before := time.Now().Unix(), f.warned.Load()
	if now-before >= 10 && f.warned.CompareAndSwap(before, now) {
		f.log.Warn("a node does not answer what is asked of its partitions", "node", to.Node, "address", to.Addr, "error", err)
	}
	return fmt.Errorf("ask node %s at %s: %w", to.Node, to.Addr, err)
}

// forwardedHeaders are those of a request that the API reads. The others stay here: the owner would take the Origin of
// this node's own page for a foreign one, and nobody else's secrets travel on.
var forwardedHeaders = []string{
	"Accept", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Traceparent", "Tracestate", "User-Agent",
}

// passedHeaders are those of an answer that the client gets; this node sets the others itself.
var passedHeaders = []string{"Allow", "Content-Length", "Content-Type", "Location", "Retry-After", "X-Accel-Buffering"}

func pick(from http.Header, names []string) http.Header {
	to := http.Header{}
	for _, n := range names {
		if v := from.Values(n); len(v) > 0 {
			to[http.CanonicalHeaderKey(n)] = v
		}
	}
	return to
}

// address points a request at another node.
func (f *forwarder) address(r *http.Request, to Route) {
	r.URL.Scheme, r.URL.Host, r.Host = "http", to.Addr, to.Addr
	r.Header = pick(r.Header, forwardedHeaders)
	r.Header.Set(headerForwarded, f.identity(to.Node))
}

// check says whether it is the node's answer, and about a partition that it has.
func (f *forwarder) check(resp *http.Response, to Route) error {
	if resp.Header.Get(headerAnswered) != f.identity(to.Node) {
		return fmt.Errorf("%w: %s", errForeign, resp.Status)
	}
	if resp.Header.Get(headerMoved) != "" {
		return errMoved
	}
	return nil
}

// passedAnswer is the answer of another node on its way to the client.
type passedAnswer struct {
	http.ResponseWriter
	stream bool
}

func (a *passedAnswer) take(resp *http.Response) {
	resp.Header, resp.Trailer = pick(resp.Header, passedHeaders), nil
	if strings.HasPrefix(resp.Header.Get("Content-Type"), contentEventStream) {
		a.stream, resp.Body = true, endingBody{resp.Body}
	}
}

// Write gives each write of a stream its own time, as the owner does.
func (a *passedAnswer) Write(b []byte) (int, error) {
	if a.stream {
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(streamWrite))
	}
	return a.ResponseWriter.Write(b)
}

func (a *passedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// endingBody ends a stream that breaks off as if it had ended: its client asks again in either case, from the last
// event on that it has. (An event that was cut in two is none: only an empty line completes it.)
type endingBody struct{ io.ReadCloser }

func (b endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// asking is what one node asks of another about some partitions.
type asking struct {
	to         Route
	path       string
	query      url.Values
	partitions []int32
}

// ask reads a JSON document of another node into v. A problem that the node finds with the request is a *Problem.
func (f *forwarder) ask(ctx context.Context, a asking, v any) (err error) {
	defer func() {
		outcome := outcomeOf(err)
		if _, ok := errors.AsType[*Problem](err); ok {
			outcome = outcomeAnswered
		}
		f.outcomes.WithLabelValues(outcome).Inc()
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return err
	}
	r.URL.Path, r.URL.RawQuery = a.path, a.query.Encode()
	f.address(r, a.to)
	r.Header.Set(headerPartitions, joined(a.partitions))
	resp, err := f.quick.RoundTrip(r)
	if err != nil {
		return f.failed(ctx, a.to, err)
	}
	defer resp.Body.Close()
	if err := f.check(resp, a.to); err != nil {
		return f.failed(ctx, a.to, err)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, askedBytes))
	if err != nil {
		return f.failed(ctx, a.to, err)
	}
	if resp.StatusCode >= http.StatusBadRequest && resp.StatusCode < http.StatusInternalServerError {
		p := new(Problem)
		if json.Unmarshal(b, p) == nil && p.Status == resp.StatusCode {
			p.Instance = ""
			return p
		}
	}
	if resp.StatusCode != http.StatusOK {
		return f.failed(ctx, a.to, fmt.Errorf("answered %s", resp.Status))
	}
	if err := json.Unmarshal(b, v); err != nil {
		return f.failed(ctx, a.to, fmt.Errorf("read the answer: %w", err))
	}
	return nil
}

func joined(partitions []int32) string {
	texts := make([]string, len(partitions))
	for i, p := range partitions {
		texts[i] = strconv.Itoa(int(p))
	}
	return strings.Join(texts, ",")
}

var hostForm = regexp.MustCompile(`^[A-Za-z0-9._:%-]+$`)

// callable says whether an address can be one: anyone may write to the topic that it comes from.
func callable(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || !hostForm.MatchString(host) {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
