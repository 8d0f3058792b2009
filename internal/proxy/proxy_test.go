package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a proxy behind a real socket, whose local answer is its name.
type node struct {
	name, addr string

	mu sync.Mutex
	// mu guards the fields below.
	routes map[int32]proxy.Route
	// onLocal is called before each local answer.
	onLocal func(r *http.Request)
	seen    []*http.Request

	log bytes.Buffer
}

const partitions = 4

// Route implements proxy.Router.
func (n *node) Route(partition int32) proxy.Route {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.routes[partition]
}

func (n *node) set(partition int32, r proxy.Route) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.routes[partition] = r
}

func (n *node) there() proxy.Route { return proxy.Route{Node: n.name, Addr: n.addr} }

// start runs a node whose requests are about partition 0. A request waits if it has the parameter wait.
func start(t *testing.T, name string, patience time.Duration) (*node, *proxy.Proxy) {
	t.Helper()
	n := &node{name: name, routes: map[int32]proxy.Route{}, onLocal: func(*http.Request) {}}
	p, err := proxy.New(proxy.Config{
		Router: n, Partitions: partitions, NamespaceID: "ns", Node: name, Stopping: context.Background(),
		Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(&n.log, nil)),
		Refuse: func(w http.ResponseWriter, _ *http.Request, partitions ...int32) {
			http.Error(w, fmt.Sprint("refused ", partitions), http.StatusServiceUnavailable)
		},
	})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	local := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.seen = append(n.seen, r)
		do := n.onLocal
		n.mu.Unlock()
		do(r)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, name, " ", r.URL.Query().Get("wait"))
	})
	server := httptest.NewServer(p.Receive(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(proxy.HeaderPartitions) != "" {
			asked, ok := p.Asked(r)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, asked, ok)
			return
		}
		q := proxy.Request{Patience: patience, Local: local}
		q.Within, _ = time.ParseDuration(r.URL.Query().Get("within"))
		if r.URL.Query().Get("wait") != "" {
			q.Kind = proxy.Waiting
		}
		q.Unanswered = func(w http.ResponseWriter, _ *http.Request, _ proxy.Route) {
			http.Error(w, "unanswered", http.StatusServiceUnavailable)
		}
		w.Header().Set("X-Frame-Options", "DENY")
		p.Serve(w, r, q)
	})))
	t.Cleanup(server.Close)
	n.addr = strings.TrimPrefix(server.URL, "http://")
	return n, p
}

func get(t *testing.T, n *node, query string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequest("GET", "http://"+n.addr+"/x?"+query, nil)
	require.NoError(t, err)
	r.Header.Set("Cookie", "secret=1")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	for name := range resp.Header {
		require.False(t, strings.HasPrefix(name, "Sagalog-"), name)
	}
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, strings.TrimSpace(string(b))
}

func TestARequestIsAnsweredByTheOwner(t *testing.T) {
	t.Parallel()
	a, _ := start(t, "a", 0)
	b, _ := start(t, "b", 0)
	a.set(0, b.there())
	b.set(0, proxy.Route{Here: true})
	status, body := get(t, a, "")
	require.Equal(t, 200, status)
	require.Equal(t, "b", body)
	require.Empty(t, b.seen[0].Header.Get("Cookie"), "credentials are not passed on")
}

func TestNodesThatDisagreeDoNotLoop(t *testing.T) {
	t.Parallel()
	a, _ := start(t, "a", 0)
	b, _ := start(t, "b", 0)
	a.set(0, b.there())
	b.set(0, a.there())
	status, body := get(t, a, "")
	require.Equal(t, 503, status)
	require.Equal(t, "unanswered", body)
	require.Empty(t, a.seen)
	require.Empty(t, b.seen)
}

func TestARequestForAnotherNodeIsRefused(t *testing.T) {
	t.Parallel()
	a, _ := start(t, "a", 0)
	b, _ := start(t, "b", 0)
	b.set(0, proxy.Route{Here: true})
	a.set(0, proxy.Route{Node: "c", Addr: b.addr}) // c is gone, and b has its address now
	status, _ := get(t, a, "")
	require.Equal(t, 503, status)
	require.Empty(t, b.seen)
}

// While nobody owns the partition, a read that does not wait is answered from the store as it is. A wait is not: the store does not
// change.
func TestAReadWithoutAnOwnerIsAnsweredAsOfThen(t *testing.T) {
	t.Parallel()
	a, _ := start(t, "a", 0)
	b, _ := start(t, "b", 0)
	a.set(0, proxy.Route{Stale: true})
	status, body := get(t, a, "")
	require.Equal(t, 200, status)
	require.Equal(t, "a", body)
	status, _ = get(t, a, "wait=1s")
	require.Equal(t, 503, status)
	b.set(0, proxy.Route{Here: true})
	a.onLocal = func(*http.Request) { a.set(0, b.there()) }
	status, body = get(t, a, "")
	require.Equal(t, 200, status)
	require.Equal(t, "b", body, "the next owner turned up during the read")
}

// A read during the hand-over of the partition proves nothing.
func TestAnAnswerIsDroppedIfThePartitionHasLeft(t *testing.T) {
	t.Parallel()
	a, _ := start(t, "a", time.Minute)
	b, _ := start(t, "b", 0)
	a.set(0, proxy.Route{Here: true})
	b.set(0, proxy.Route{Here: true})
	a.onLocal = func(*http.Request) { a.set(0, b.there()) }
	status, body := get(t, a, "")
	require.Equal(t, 200, status)
	require.Equal(t, "b", body)
}

func TestAWaitKeepsItsTimeAtTheNextOwner(t *testing.T) {
	t.Parallel()
	a, _ := start(t, "a", time.Hour)
	b, _ := start(t, "b", time.Hour)
	a.set(0, proxy.Route{Here: true})
	b.set(0, proxy.Route{Here: true})
	a.onLocal = func(r *http.Request) {
		a.set(0, b.there())
		<-r.Context().Done()
		require.ErrorIs(t, context.Cause(r.Context()), proxy.ErrMoved)
	}
	status, body := get(t, a, "wait=3600s")
	require.Equal(t, 200, status)
	wait, err := time.ParseDuration(strings.TrimPrefix(body, "b "))
	require.NoError(t, err, body)
	require.Less(t, wait, time.Hour)
	require.Positive(t, wait)
}

func TestAnOwnerIsAwaitedForAsLongAsItMayTake(t *testing.T) {
	t.Parallel()
	a, _ := start(t, "a", 0)
	b, _ := start(t, "b", 0)
	a.set(0, b.there())
	b.set(0, proxy.Route{Here: true})
	b.onLocal = func(r *http.Request) { <-r.Context().Done() }
	status, body := get(t, a, "within=10ms")
	require.Equal(t, 503, status)
	require.Equal(t, "unanswered", body)
	require.Contains(t, a.log.String(), "no answer in time")
}

func TestPatienceOutlastsATakeOver(t *testing.T) {
	t.Parallel()
	a, _ := start(t, "a", time.Hour)
	looked := make(chan struct{})
	go func() {
		<-looked
		a.set(0, proxy.Route{Here: true})
	}()
	close(looked)
	status, body := get(t, a, "")
	require.Equal(t, 200, status)
	require.Equal(t, "a", body)
}

func TestAWrongAddressIsNotCalled(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"", "x", "x:0", "x:y", "a/b:80", "host:99999"} {
		require.False(t, proxy.Route{Node: "b", Addr: addr}.Known(), addr)
	}
	require.True(t, proxy.Route{Node: "b", Addr: "[::1]:80"}.Known())
}

func TestEachNodeIsAskedAboutItsPartitions(t *testing.T) {
	t.Parallel()
	a, p := start(t, "a", 0)
	b, _ := start(t, "b", 0)
	c, _ := start(t, "c", 0)
	a.set(0, proxy.Route{Here: true})
	a.set(1, b.there())
	a.set(2, c.there())
	a.set(3, b.there())
	at := p.Locate()
	require.Equal(t, []int32{0}, at.Here)
	require.Empty(t, at.Nowhere)
	answers := map[string][]int32{}
	p.AskEach(t.Context(), at.There, proxy.Question{Path: "/x"}, func(partitions []int32, answer []byte, err error) error {
		require.NoError(t, err)
		answers[string(answer)] = partitions
		return nil
	})
	require.Equal(t, map[string][]int32{"[1 3] true": {1, 3}, "[2] true": {2}}, answers)
	require.Equal(t, []int32{1, 2}, p.Away([]int32{0, 1, 2}))

	a.set(3, proxy.Route{})
	require.Equal(t, []int32{3}, p.Locate().Nowhere)
}

// An operator whose list request is refused finds the reason in the log.
func TestAnAnswerThatCannotBeReadIsLogged(t *testing.T) {
	t.Parallel()
	a, p := start(t, "a", 0)
	b, _ := start(t, "b", 0)
	a.set(1, b.there())
	p.AskEach(t.Context(), p.Locate().There, proxy.Question{Path: "/x"}, func([]int32, []byte, error) error { return errors.New("not JSON") })
	require.Contains(t, a.log.String(), "read the answer: not JSON")
}

// Anyone who may write presence can name an address of their own, and repeat the identity that is asked for.
func TestAStrangerCannotAnswerAsAPageOfThisNode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		header http.Header
		passed bool
	}{
		"a page":            {200, http.Header{"Content-Type": {"text/html"}}, false},
		"a page in a fault": {404, http.Header{"Content-Type": {"text/html"}}, false},
		"two types":         {200, http.Header{"Content-Type": {"application/json", "text/html"}}, false},
		"no type":           {200, http.Header{"Content-Type": nil}, false},
		"a redirect":        {302, http.Header{"Content-Type": {"application/json"}, "Location": {"http://evil.example/"}}, false},
		"a document": {200, http.Header{
			"Content-Type": {"application/json; charset=utf-8"}, "Location": {"//evil.example/"}, "Set-Cookie": {"a=b"},
			"Access-Control-Allow-Origin": {"*"}, "X-Frame-Options": {"ALLOW"}, "Trailer": {"Refresh"}, "Refresh": {"0; url=http://evil.example/"},
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Set-Cookie", "early=1")
				w.WriteHeader(http.StatusEarlyHints)
				w.Header().Del("Set-Cookie")
				w.Header().Set(proxy.HeaderAnswered, r.Header.Get(proxy.HeaderForwarded))
				maps.Copy(w.Header(), c.header)
				w.WriteHeader(c.status)
				fmt.Fprint(w, "<script>")
			}))
			t.Cleanup(stranger.Close)
			a, p := start(t, "a", 0)
			there := proxy.Route{Node: "b", Addr: strings.TrimPrefix(stranger.URL, "http://")}
			a.set(0, there)
			r, err := http.NewRequest("GET", "http://"+a.addr+"/x", nil)
			require.NoError(t, err)
			r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, h textproto.MIMEHeader) error { return fmt.Errorf("%d %v", code, h) },
			}))
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			resp, err := transport.RoundTrip(r)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "DENY", resp.Header.Get("X-Frame-Options"))
			for _, name := range []string{"Set-Cookie", "Access-Control-Allow-Origin", "Location", "Refresh"} {
				require.Empty(t, resp.Header.Values(name), name)
				require.Empty(t, resp.Trailer.Values(name), name)
			}
			require.Equal(t, c.passed, string(body) == "<script>", "%d %s", resp.StatusCode, body)
			p.AskEach(t.Context(), map[proxy.Route][]int32{there: {0}}, proxy.Question{Path: "/x"}, func(_ []int32, _ []byte, err error) error {
				require.Equal(t, c.passed, err == nil, "%v", err)
				return nil
			})
		})
	}
}

// A stranger asks for a node that is not this one.
func TestARefusalForAnotherNodeHasNoIdentity(t *testing.T) {
	t.Parallel()
	a, _ := start(t, "a", 0)
	r, err := http.NewRequest("GET", "http://"+a.addr+"/x", nil)
	require.NoError(t, err)
	r.Header.Set(proxy.HeaderForwarded, "x")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Empty(t, resp.Header.Get(proxy.HeaderAnswered))
}
