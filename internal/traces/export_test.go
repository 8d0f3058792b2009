package traces

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/sagalog/sagalog/internal/repeats"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// held is an exporter that takes nothing until it is released, or until its context ends.
type held struct {
	arrived, released chan struct{}
	once              sync.Once
	err               error
}

func (h *held) ExportSpans(ctx context.Context, _ []sdk.ReadOnlySpan) error {
	h.once.Do(func() { close(h.arrived) })
	select {
	case <-h.released:
		return h.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (*held) Shutdown(context.Context) error { return nil }

// over returns a tracer that exports to e, and what it logs.
func over(t *testing.T, e sdk.SpanExporter) (*Tracer, *bytes.Buffer) {
	var log bytes.Buffer
	s, err := newSpans(e, repeats.Limited(slog.New(slog.NewTextHandler(&log, nil))), prometheus.NewPedanticRegistry())
	require.NoError(t, err)
	x := &Tracer{spans: s, provider: sdk.NewTracerProvider(sdk.WithSpanProcessor(s), sdk.WithIDGenerator(identifiers{}))}
	x.tracer = x.provider.Tracer("test")
	return x, &log
}

func (t *Tracer) submit(n int) {
	for range n {
		_, end := t.Submission("", time.Now())
		end("t", "w", 202)
	}
}

func (t *Tracer) counted(result string) float64 {
	var m dto.Metric
	if err := t.spans.results.WithLabelValues(result).Write(&m); err != nil {
		panic(err)
	}
	return m.GetCounter().GetValue()
}

func TestSpansThatFindNoRoomAreDroppedAndCounted(t *testing.T) {
	t.Parallel()
	h := &held{arrived: make(chan struct{}), released: make(chan struct{})}
	x, log := over(t, h)
	x.submit(batchSpans)
	<-h.arrived
	x.submit(queueSpans)
	require.EqualValues(t, batchSpans, x.counted(spanDropped))
	close(h.released)
	x.Close()
	require.EqualValues(t, queueSpans, x.counted(spanExported))
	require.Zero(t, x.spans.waiting.Load())
	require.Contains(t, log.String(), "spans are dropped")
	require.Contains(t, log.String(), "spans=512")
}

func TestACollectorThatFailsIsLoggedNowAndThen(t *testing.T) {
	t.Parallel()
	h := &held{arrived: make(chan struct{}), released: make(chan struct{}), err: errors.New("no route")}
	close(h.released)
	x, log := over(t, h)
	x.submit(4 * batchSpans)
	x.Close()
	require.EqualValues(t, 4*batchSpans, x.counted(spanFailed))
	require.Zero(t, x.counted(spanDropped))
	require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
	require.Contains(t, log.String(), "no route")
}

// A stop gives up what a silent collector has not taken, and leaves no goroutine.
func TestAStopDoesNotWaitForASilentCollector(t *testing.T) {
	t.Parallel()
	h := &held{arrived: make(chan struct{}), released: make(chan struct{})}
	x, _ := over(t, h)
	x.submit(2 * batchSpans)
	<-h.arrived
	x.Close()
	require.EqualValues(t, 2*batchSpans, x.counted(spanFailed))
}

// A submission that nobody wants sampled has the client's context, and one without a context has the new one of its span.
func TestTheRecordCarriesTheContextOfTheSubmission(t *testing.T) {
	t.Parallel()
	e := tracetest.NewInMemoryExporter()
	x, _ := over(t, e)
	unsampled := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	carried, end := x.Submission(unsampled, time.Now())
	end("a", "w", 202)
	require.Equal(t, unsampled, carried)
	fresh, end := x.Submission("malformed", time.Now())
	end("b", "w", 503)
	child, end := x.Submission(fresh, time.Now())
	end("c", "w", 400)
	require.NoError(t, x.provider.ForceFlush(t.Context()))
	spans := e.GetSpans()
	require.Len(t, spans, 2)
	for i, carried := range []string{fresh, child} {
		require.Equal(t, "00-"+spans[0].SpanContext.TraceID().String()+"-"+spans[i].SpanContext.SpanID().String()+"-01", carried)
	}
	require.False(t, spans[0].Parent.IsValid())
	require.Equal(t, spans[0].SpanContext.SpanID(), spans[1].Parent.SpanID())
	require.Equal(t, []string{"Error", "Unset"}, []string{spans[0].Status.Code.String(), spans[1].Status.Code.String()})
	x.Close()
}
