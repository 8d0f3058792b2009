package traces

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/internal/repeats"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushWithin bounds how long a stop waits for the collector: a program ends within 5 s of Ctrl-C, and most of that may be used already.
const flushWithin = time.Second

// Config names a process in its spans.
type Config struct {
	// Instance is the node's name, and Version that of the program.
	Instance, Version string
	Registerer        prometheus.Registerer
	Logger            *slog.Logger
}

// Tracer makes spans and exports them. All methods but Close need one that is not nil.
type Tracer struct {
	spans    *spans
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// Open returns the Tracer that the variables ask for, nil if they ask for none.
func Open(ctx context.Context, c Config) (*Tracer, error) {
	wanted, err := Check()
	if err != nil || !wanted {
		return nil, err
	}
	log := repeats.Limited(c.Logger)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("the OpenTelemetry library reports an error; tasks are not affected", "error", err)
	}))
	named, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "sagalog"), attribute.String("service.version", c.Version), attribute.String("service.instance.id", c.Instance),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	var exporter sdk.SpanExporter
	if _, value := given(protocol); value == protocolGRPC {
		exporter, err = otlptracegrpc.New(ctx)
	} else {
		exporter, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open the exporter of traces: %w", err)
	}
	t := &Tracer{}
	if t.spans, err = newSpans(exporter, log, c.Registerer); err != nil {
		return nil, fmt.Errorf("register the metrics of traces: %w", err)
	}
	t.provider = sdk.NewTracerProvider(sdk.WithResource(named), sdk.WithSpanProcessor(t.spans), sdk.WithIDGenerator(identifiers{}))
	t.tracer = t.provider.Tracer("github.com/sagalog/sagalog", trace.WithInstrumentationVersion(c.Version))
	return t, nil
}

// Close sends what waits, as far as the collector takes it in time. No span may end after it.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushWithin)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // what was not sent is counted and logged
	t.spans.end()
	<-t.spans.over
}
