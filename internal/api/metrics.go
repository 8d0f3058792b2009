package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  prometheus.Gauge
	lines    *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sagalog_api_requests_total",
			Help: "Requests to the HTTP API by route, method and status code.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sagalog_api_request_duration_seconds",
			Help: "Time from a request's headers to the end of its answer. Calls with wait= and streams are left out.",
			// From an answer out of memory to a large bulk.
			Buckets:                     []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"route", "method", "code"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sagalog_api_streams",
			Help: "Open streams of server-sent events.",
		}),
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sagalog_api_bulk_lines_total",
			Help: "Lines of bulk submissions by the status of their answer.",
		}, []string{"status"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.seconds, m.streams, m.lines} {
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
		defer func() {
			method := r.Method
			if !knownMethods[method] {
				method = "other"
			}
			_, route, ok := strings.Cut(r.Pattern, " ")
			if !ok {
				route = "other"
			}
			code := strconv.Itoa(a.code())
			m.requests.WithLabelValues(route, method, code).Inc()
			if !strings.Contains(r.URL.RawQuery, "wait=") && !strings.HasPrefix(a.Header().Get("Content-Type"), "text/event-stream") {
				m.seconds.WithLabelValues(route, method, code).Observe(time.Since(start).Seconds())
			}
		}()
		next.ServeHTTP(a, r)
	})
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
