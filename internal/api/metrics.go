package api

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  prometheus.Gauge
	lines    *prometheus.CounterVec
	// forwarded has the outcomes of forward.go.
	forwarded *prometheus.CounterVec

	// known has the metrics of the requests that there were, so that not each one hashes its labels. It is replaced as a
	// whole, by who holds mu.
	known atomic.Pointer[map[requestLabels]requestMetrics]
	mu    sync.Mutex
}

// requestLabels are a closed set: the routes, the methods and the statuses that we answer.
type requestLabels struct {
	route, method string
	status        int
}

type requestMetrics struct {
	count   prometheus.Counter
	seconds prometheus.Observer
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sagalog_api_requests_total",
			Help: "Requests to the HTTP API by route, method and status.",
		}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sagalog_api_request_duration_seconds",
			Help: "Time from a request's headers to the end of its answer, waits included.",
			// From an answer out of memory to the longest wait.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"route", "method"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sagalog_api_streams",
			Help: "Open streams of server-sent events.",
		}),
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sagalog_api_bulk_lines_total",
			Help: "Lines of bulk submissions by the status of their answer.",
		}, []string{"status"}),
		forwarded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sagalog_api_forwarded_total",
			Help: "Reads passed to the node that owns their partition, by what came of it.",
		}, []string{"outcome"}),
	}
	m.known.Store(&map[requestLabels]requestMetrics{})
	for _, o := range outcomes {
		m.forwarded.WithLabelValues(o) // so that a rate of errors is there from the first one on
	}
	for _, c := range []prometheus.Collector{m.requests, m.seconds, m.streams, m.lines, m.forwarded} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

var knownMethods = map[string]bool{"GET": true, "HEAD": true, "PUT": true, "POST": true, "DELETE": true, "OPTIONS": true}

// measure counts each request by its route's pattern, which the mux writes into the request, so that no task ID
// becomes a label.
func (m *metrics) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		a := &answer{ResponseWriter: w}
		done := func() {
			method := r.Method
			if !knownMethods[method] {
				method = "other"
			}
			_, route, ok := strings.Cut(r.Pattern, " ")
			if !ok {
				route = "other"
			}
			of := m.of(requestLabels{route, method, a.code()})
			of.count.Inc()
			of.seconds.Observe(time.Since(start).Seconds())
		}
		defer done()
		next.ServeHTTP(a, r)
	})
}

func (m *metrics) of(l requestLabels) requestMetrics {
	if r, ok := (*m.known.Load())[l]; ok {
		return r
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := requestMetrics{m.requests.WithLabelValues(l.route, l.method, strconv.Itoa(l.status)), m.seconds.WithLabelValues(l.route, l.method)}
	more := maps.Clone(*m.known.Load())
	more[l] = r
	m.known.Store(&more)
	return r
}

// answer remembers the status of an answer. Unwrap lets http.ResponseController reach the connection.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) code() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}
