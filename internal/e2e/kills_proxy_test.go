package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/stretchr/testify/require"
)

// The points of the crash table at which an agent dies. They are reached between the agent and the service that it
// calls.
const (
	pointBeforeWork = "agent-before-working"
	pointWorked     = "agent-worked"
)

// One call in lateShare is answered at about the time when the attempt times out, so that its result arrives while the
// Timeout is decided. lateAfter is the complete-by time of most steps, and lateBy is how far from it the answer may be.
const (
	lateShare = 40
	lateAfter = 4950 * time.Millisecond
	lateBy    = 100 * time.Millisecond
)

// gate is a proxy between one process of agents and the services.
type gate struct {
	urls map[string]string
	// calls counts the calls. latest is the time of the last one, in nanoseconds.
	calls, latest atomic.Int64

	// mu guards the fields below.
	mu    sync.Mutex
	point string
	left  int
	// shut is called during the last call.
	shut func()
}

func newGate(t *testing.T, f *fleet) *gate {
	t.Helper()
	g := &gate{urls: map[string]string{}}
	for _, s := range dronedelivery.Services() {
		to, err := url.Parse(f.urls[s])
		require.NoError(t, err)
		proxy := &httputil.ReverseProxy{
			// A connection that is used again may break, and then the transport sends the call again, so that the agent gets the
			// answer to the second sending and cannot know.
			Transport: &http.Transport{DisableKeepAlives: true},
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
			// An agent that died or gave up is not an error.
			ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
			ModifyResponse: g.answered,
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.latest.Store(time.Now().UnixNano())
			if !g.reach(pointBeforeWork) {
				proxy.ServeHTTP(w, r)
			}
		}))
		t.Cleanup(server.Close)
		g.urls[s] = server.URL
	}
	return g
}

func (g *gate) answered(r *http.Response) error {
	g.reach(pointWorked)
	if g.calls.Add(1)%lateShare == 0 {
		timer := time.NewTimer(lateAfter + time.Duration(g.calls.Load()%7)*lateBy/7)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Request.Context().Done():
		}
	}
	return nil
}

// env tells the agents where the services are: at the gate.
func (g *gate) env() []string {
	var env []string
	for _, s := range dronedelivery.Services() {
		env = append(env, dronedelivery.EnvName(s)+"="+g.urls[s])
	}
	return env
}

// arm makes the n-th pass of a point call shut.
func (g *gate) arm(point string, n int, shut func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.point, g.left, g.shut = point, n, shut
}

func (g *gate) disarm() { g.arm("", 0, nil) }

// reach says whether this is the pass at which the agent dies.
func (g *gate) reach(point string) bool {
	g.mu.Lock()
	defer g.mu.Unlock() // nothing passes until the agent is dead
	if g.point != point {
		return false
	}
	if g.left--; g.left > 0 {
		return false
	}
	g.shut()
	g.point = ""
	return true
}

// calledSince says whether a call came after an instant.
func (g *gate) calledSince(t time.Time) bool { return g.latest.Load() > t.UnixNano() }
