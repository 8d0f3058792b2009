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

// The points of the crash table at which an agent dies. They are met between the agent and the service that it calls.
const (
	pointBeforeWork = "agent-before-working"
	pointWorked     = "agent-worked"
)

// lateShare is one in so many calls whose answer comes about when the attempt's time is over: the result is on its way
// while the Timeout is decided. lateAfter is the complete-by time of most steps, lateBy how far around it.
const (
	lateShare = 40
	lateAfter = 4950 * time.Millisecond
	lateBy    = 100 * time.Millisecond
)

// gate stands between one process of agents and the services.
type gate struct {
	urls map[string]string
	// calls counts; latest is when the last one came, in nanoseconds.
	calls, latest atomic.Int64

	// mu guards the fields below.
	mu    sync.Mutex
	point string
	left  int
	// shut is called in the call that is the last.
	shut func()
}

func newGate(t *testing.T, f *fleet) *gate {
	t.Helper()
	g := &gate{urls: map[string]string{}}
	for _, s := range dronedelivery.Services() {
		to, err := url.Parse(f.urls[s])
		require.NoError(t, err)
		proxy := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
			// An agent that died, or gave up, is no fault of anybody.
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

// env is where the agents look for the services.
func (g *gate) env() []string {
	var env []string
	for _, s := range dronedelivery.Services() {
		env = append(env, dronedelivery.EnvName(s)+"="+g.urls[s])
	}
	return env
}

// arm has shut called at the n-th pass of a point.
func (g *gate) arm(point string, n int, shut func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.point, g.left, g.shut = point, n, shut
}

func (g *gate) disarm() { g.arm("", 0, nil) }

// reach says whether this was the pass at which the agent died.
func (g *gate) reach(point string) bool {
	g.mu.Lock()
	defer g.mu.Unlock() // nothing passes while the agent is killed
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
