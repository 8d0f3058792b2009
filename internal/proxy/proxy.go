package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The headers between nodes. A client gains nothing by setting them: they only ever make a node answer less.
const (
	// HeaderForwarded marks a request that a node passed on, and names the node that it is for.
	HeaderForwarded = "Sagalog-Forwarded"
	// HeaderAnswered names the node that answers such a request. An answer without it comes from something else that now
	// has the address of a node that is gone.
	HeaderAnswered = "Sagalog-Answered"
	// HeaderMoved in such an answer says that the partition is elsewhere.
	HeaderMoved = "Sagalog-Moved"
	// HeaderPartitions restricts a question to these partitions: "1,3,5".
	HeaderPartitions = "Sagalog-Partitions"
)

const (
	// AnswerWithin is how long an owner may take, in addition to the time that the request itself waits, unless it has another Within.
	AnswerWithin = 5 * time.Second
	// dialTimeout is generous within a data centre. A node that takes longer is down, and its partitions are about to move.
	dialTimeout = time.Second
	// quickConns and longConns bound the connections to one node. Waits and streams hold theirs for as long as they last, so they
	// have their own pool, and reads do not queue behind them.
	quickConns = 64
	longConns  = 2048
	// idleConns is the number of connections that a steady load of reads reuses.
	idleConns = 16
	// idleFor is below the two minutes after which the other end closes, so a request rarely meets a closing connection.
	idleFor        = time.Minute
	maxHeaderBytes = 32 << 10
)

// ErrMoved is returned when the partition is not where the request went.
var ErrMoved = errors.New("the partition has moved")

var (
	errSilent  = errors.New("no answer in time")
	errForeign = errors.New("something else answers at the address of the node")
)

// Route is where requests about a partition are answered.
type Route struct {
	// Here says that this node's store has the partition and has caught up.
	Here bool
	// Stale says that no owner is known and this node's store has the partition, as this node last folded it.
	// Reads that do not wait are answered from it.
	Stale bool
	// Node is the owner if it is another live node; empty if none is known.
	Node string
	// Addr is the host:port of that node's API; empty if it serves none.
	Addr string
	// Stopped says why the node that should own the partition has stopped working on it; empty otherwise.
	Stopped string
}

// Known says whether there is a node to ask.
func (r Route) Known() bool { return r.Here || callable(r.Addr) }

// Readable says whether this node's store can answer a read that does not wait.
func (r Route) Readable() bool { return r.Here || r.Stale }

// Router knows where partitions are.
type Router interface {
	// Route returns where requests about a partition are answered now. It is called often, so it answers from memory.
	Route(partition int32) Route
}

// Config is what a Proxy needs. All fields but Sign and TLS are required.
type Config struct {
	Router     Router
	Partitions int32
	// NamespaceID and Node identify this node to the others: two clusters may have nodes of the same name on one machine.
	NamespaceID, Node string
	// Refuse answers 503: no node answers for these partitions now.
	Refuse func(w http.ResponseWriter, r *http.Request, partitions ...int32)
	// Sign, if set, signs a request in the name of its caller, who is in its context. It is called when nothing else changes any more.
	Sign func(r *http.Request, body []byte)
	// TLS, if set, returns the configuration for the next connection to another node's API. Then no node is called without TLS.
	TLS func() *tls.Config
	// Stopping ends when this node begins to stop: waits and streams end with it.
	Stopping   context.Context
	Registerer prometheus.Registerer
	Logger     *slog.Logger
}

// Proxy passes requests to other nodes. All methods are safe for concurrent use.
type Proxy struct {
	cfg Config
	// self is this node's identity.
	self        string
	quick, long *http.Transport
	outcomes    *prometheus.CounterVec
	// warned is when an unreachable node was last logged, in Unix seconds.
	warned atomic.Int64
}

// New returns a proxy. Close it after use.
func New(cfg Config) (*Proxy, error) {
	outcomes, err := newOutcomes(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	p := &Proxy{cfg: cfg, quick: cfg.transport(quickConns), long: cfg.transport(longConns), outcomes: outcomes}
	p.self = p.identity(cfg.Node)
	return p, nil
}

// transport ignores the proxy settings of the environment: nodes call each other directly.
func (c *Config) transport(conns int) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		MaxConnsPerHost:        conns,
		MaxIdleConnsPerHost:    idleConns,
		IdleConnTimeout:        idleFor,
		DisableCompression:     true, // answers are passed on unchanged
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	if c.TLS != nil {
		t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&tls.Dialer{NetDialer: dialer, Config: c.TLS()}).DialContext(ctx, network, addr) // it checks the host of addr
		}
	}
	return t
}

// Close closes idle connections.
func (p *Proxy) Close() {
	p.quick.CloseIdleConnections()
	p.long.CloseIdleConnections()
}

func (p *Proxy) identity(node string) string {
	return url.PathEscape(p.cfg.NamespaceID) + "/" + url.PathEscape(node)
}

// Receive identifies this node to one that passed a request on, and refuses a request that is for another node: one
// that had this address before, or one of another cluster. Only a node that knows the identity is answered by it, so nobody learns
// the ID of the namespace by asking for another.
func (p *Proxy) Receive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.Header.Get(HeaderForwarded); to != "" {
			if to != p.self {
				p.refuse(w, r)
				return
			}
			w.Header().Set(HeaderAnswered, p.self)
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers a request that another node passed on: its partitions are not here.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, partitions ...int32) {
	w.Header().Set(HeaderMoved, "1")
	p.cfg.Refuse(w, r, partitions...)
}

// Asked returns the partitions to which another node restricts its question; nil if a client asks. It returns false if
// they cannot be read.
func (p *Proxy) Asked(r *http.Request) ([]int32, bool) {
	if r.Header.Get(HeaderForwarded) == "" {
		return nil, true
	}
	var list []int32
	for text := range strings.SplitSeq(r.Header.Get(HeaderPartitions), ",") {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 || int32(n) >= p.cfg.Partitions {
			return nil, false
		}
		list = append(list, int32(n))
	}
	return list, true
}

// Placement says where each partition is.
type Placement struct {
	Here  []int32
	There map[Route][]int32
	// Nowhere holds the partitions for which no node can be asked.
	Nowhere []int32
}

// Locate returns where all partitions are now.
func (p *Proxy) Locate() Placement {
	l := Placement{There: map[Route][]int32{}}
	for n := range p.cfg.Partitions {
		switch at := p.cfg.Router.Route(n); {
		case at.Here:
			l.Here = append(l.Here, n)
		case at.Known():
			l.There[at] = append(l.There[at], n)
		default:
			l.Nowhere = append(l.Nowhere, n)
		}
	}
	return l
}

// Unreadable returns the partitions that this node's store cannot answer for now.
func (p *Proxy) Unreadable(partitions []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(partitions), func(n int32) bool { return p.cfg.Router.Route(n).Readable() })
}

// Away returns the partitions that are not here now.
func (p *Proxy) Away(partitions []int32) []int32 {
	var list []int32
	for _, n := range partitions {
		if !p.cfg.Router.Route(n).Here {
			list = append(list, n)
		}
	}
	return list
}

// address points a request at another node.
func (p *Proxy) address(r *http.Request, to Route) {
	r.URL.Scheme, r.URL.Host, r.Host = "http", to.Addr, to.Addr
	if p.cfg.TLS != nil {
		r.URL.Scheme = "https"
	}
	r.Header = pick(r.Header, requestHeaders)
	r.Header.Set(HeaderForwarded, p.identity(to.Node))
}

// sign signs a request to another node, if nodes do that.
func (p *Proxy) sign(r *http.Request, body []byte) {
	if p.cfg.Sign != nil {
		p.cfg.Sign(r, body)
	}
}

// check returns an error unless the node itself answered, in the form of a node's answer and about a partition that it has.
func (p *Proxy) check(resp *http.Response, to Route) error {
	if resp.Header.Get(HeaderAnswered) != p.identity(to.Node) {
		return fmt.Errorf("%w: %s", errForeign, resp.Status)
	}
	if resp.Header.Get(HeaderMoved) != "" {
		return ErrMoved
	}
	if !ours(resp) {
		return fmt.Errorf("%w: %s with the type %.100q", errForeign, resp.Status, resp.Header.Get("Content-Type"))
	}
	return nil
}

// failed returns the error of a call, and logs now and then that a node does not answer.
func (p *Proxy) failed(ctx context.Context, to Route, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, ErrMoved) || errors.Is(err, context.Canceled) {
		return err
	}
	now, before := time.Now().Unix(), p.warned.Load()
	if now-before >= 10 && p.warned.CompareAndSwap(before, now) {
		p.cfg.Logger.Warn("a node does not answer requests about its partitions", "node", to.Node, "address", to.Addr, "error", err)
	}
	return fmt.Errorf("ask node %s at %s: %w", to.Node, to.Addr, err)
}

// requestHeaders are the headers of a request that the API reads. The others stay here: the owner would take the Origin
// of this node's page for a foreign one, and cookies and credentials go no further.
var requestHeaders = []string{
	"Accept", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Traceparent", "Tracestate", "User-Agent",
}

// answerHeaders are the headers of an answer that the client gets; this node sets the others itself.
var answerHeaders = []string{"Allow", "Content-Length", "Content-Type", "Location", "Retry-After", "X-Accel-Buffering"}

func pick(from http.Header, names []string) http.Header {
	to := http.Header{}
	for _, n := range names {
		if v := from.Values(n); len(v) > 0 {
			to.Set(n, v[0]) // the API reads the first one
		}
	}
	return to
}

var hostForm = regexp.MustCompile(`^[A-Za-z0-9._:%-]+$`)

// callable says whether an address is a host and a port: anyone may write to the topic that it comes from.
func callable(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || !hostForm.MatchString(host) {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
