package traces

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// The bounds of what waits for a collector.
const (
	// queueSpans is how many spans wait, those on their way included: a second of 300 tasks a second with five steps, or 2 MiB.
	queueSpans = 4096
	// batchSpans is how many are sent together.
	batchSpans = 512
)

// The results of a span.
const (
	spanExported = "exported"
	spanFailed   = "failed"
	spanDropped  = "dropped"
)

// spans counts what became of the spans, before and after the queue of the library, which counts nothing.
type spans struct {
	sdk.SpanProcessor // the queue
	exporter          sdk.SpanExporter
	log               *slog.Logger
	results           *prometheus.CounterVec
	dropped           prometheus.Counter
	waiting           atomic.Int64
	// unsaid is how many were dropped since the log said so.
	unsaid atomic.Int64
	// ended ends exports that take longer than a stop may.
	ended context.Context
	end   context.CancelFunc
	// over is closed when the queue is empty and nothing runs any more.
	over     chan struct{}
	shutdown sync.Once
}

func newSpans(exporter sdk.SpanExporter, log *slog.Logger, r prometheus.Registerer) (*spans, error) {
	s := &spans{
		exporter: exporter, log: log, over: make(chan struct{}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sagalog_trace_spans_total",
			Help: "Spans by result: exported, failed (the collector did not accept them) or dropped (too many were waiting)."}, []string{"result"}),
	}
	for _, result := range []string{spanExported, spanFailed} {
		s.results.WithLabelValues(result)
	}
	s.dropped = s.results.WithLabelValues(spanDropped)
	s.ended, s.end = context.WithCancel(context.Background())
	if err := r.Register(s.results); err != nil {
		return nil, err
	}
	s.SpanProcessor = sdk.NewBatchSpanProcessor(behind{s}, sdk.WithMaxQueueSize(queueSpans), sdk.WithMaxExportBatchSize(batchSpans))
	return s, nil
}

// OnEnd passes a span to the queue, unless that is full.
func (s *spans) OnEnd(span sdk.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() {
		return
	}
	if s.waiting.Add(1) > queueSpans {
		s.waiting.Add(-1)
		s.unsaid.Add(1)
		s.dropped.Inc()
		return
	}
	s.SpanProcessor.OnEnd(span)
}

// behind is the exporter behind the queue.
type behind struct{ s *spans }

// ExportSpans sends spans. An error is counted and logged here, since the library would print it.
func (b behind) ExportSpans(ctx context.Context, batch []sdk.ReadOnlySpan) error {
	s := b.s
	defer s.waiting.Add(int64(-len(batch)))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	if n := s.unsaid.Swap(0); n > 0 {
		s.log.Warn("spans are dropped, because the collector of traces does not keep up; sample fewer traces (OTEL_TRACES_SAMPLER)", "spans", n)
	}
	if err := s.exporter.ExportSpans(ctx, batch); err != nil {
		s.results.WithLabelValues(spanFailed).Add(float64(len(batch)))
		s.log.Warn("the collector of traces did not accept spans; check OTEL_EXPORTER_OTLP_ENDPOINT. Nothing else is affected", "spans", len(batch), "error", err)
		return nil
	}
	s.results.WithLabelValues(spanExported).Add(float64(len(batch)))
	return nil
}

// Shutdown is called by the queue when it is empty.
func (b behind) Shutdown(ctx context.Context) error {
	err := b.s.exporter.Shutdown(ctx)
	b.s.shutdown.Do(func() { close(b.s.over) })
	return err
}
