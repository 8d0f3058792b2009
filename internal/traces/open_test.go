package traces

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// inbox is a collector that keeps what comes, by HTTP and by gRPC.
type inbox struct {
	collector.UnimplementedTraceServiceServer
	names chan string
}

func (i *inbox) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	for _, of := range r.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				i.names <- s.Name
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (i *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var all collector.ExportTraceServiceRequest
	if body, _ := io.ReadAll(r.Body); proto.Unmarshal(body, &all) != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
	_, _ = i.Export(r.Context(), &all)
}

func TestSpansArriveByEachProtocolAndAStopEndsAll(t *testing.T) {
	for _, protocol := range []string{protocolHTTP, protocolGRPC} {
		t.Run(protocol, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			clearVariables(t)
			box := &inbox{names: make(chan string, 10)}
			if protocol == protocolHTTP {
				s := httptest.NewServer(box)
				defer s.Close()
				t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", s.URL)
			} else {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				s := grpc.NewServer()
				collector.RegisterTraceServiceServer(s, box)
				ended := make(chan error, 1)
				go func() { ended <- s.Serve(l) }()
				defer func() { s.Stop(); require.NoError(t, <-ended) }()
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocolGRPC)
			}
			x, err := Open(t.Context(), Config{Instance: "n1", Version: "v", Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			_, end := x.Submission("", time.Now())
			end("t", "w", 202)
			x.Close()
			require.Equal(t, "submission", <-box.names)
		})
	}
}

func TestWithoutVariablesThereIsNoTracer(t *testing.T) {
	clearVariables(t)
	x, err := Open(t.Context(), Config{})
	require.NoError(t, err)
	require.Nil(t, x)
	x.Close()
}

// Whoever may submit chooses these names, also of a submission that is refused, and thousands of spans may wait.
func TestNamesInTheSpanOfASubmissionAreClipped(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	x := &Tracer{tracer: sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")}
	_, end := x.Submission("", time.Now())
	end(strings.Repeat("t", 1<<20), strings.Repeat("w", 1<<20), 404)
	for _, a := range spans.Ended()[0].Attributes() {
		require.LessOrEqual(t, len(a.Value.String()), 300, a.Key)
	}
}
