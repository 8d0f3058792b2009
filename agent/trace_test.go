package agent_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/events"
)

const taskTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

type traceKey struct{}

// callTraces is an agent.Trace that remembers what it was called with.
type callTraces struct {
	mu     sync.Mutex
	parent []string
	ended  []string
}

func (c *callTraces) begin(ctx context.Context, a agent.Attempt) (context.Context, string, func(*agent.Failure)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parent = append(c.parent, a.Traceparent)
	span := strings.Repeat(string(rune('0'+len(c.parent))), 16)
	return context.WithValue(ctx, traceKey{}, span), taskTrace[:36] + span + "-01", func(f *agent.Failure) {
		c.mu.Lock()
		defer c.mu.Unlock()
		result := span
		if f != nil {
			result += " " + string(f.Class) + " " + string(f.Effect)
		}
		c.ended = append(c.ended, result)
	}
}

// send delivers a request of a task with a trace context, and waits for its report.
func sendTraced(t *testing.T, h *agenttest.Harness, trace string) events.Record {
	w := h.Work("package", events.Do, parcel{})
	r, err := events.EncodeWork(w, events.Subject{ID: "0/1/2", Traceparent: trace})
	require.NoError(t, err)
	h.Sources["package"].Add(r)
	_, ok := h.Await(w)
	require.True(t, ok)
	return h.LastReport()
}

func TestEachTryIsASpanOfItsAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var traces callTraces
		var passed, spans []string
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			a, _ := agent.FromContext(ctx)
			span, _ := ctx.Value(traceKey{}).(string)
			passed, spans = append(passed, a.Traceparent), append(spans, span)
			if len(passed) == 1 {
				return in, errBoom
			}
			return in, nil
		}, agent.WithRetry(agent.Retry{Tries: 2})), func(c *agent.Config) { c.Trace = traces.begin })
		report := sendTraced(t, h, taskTrace)
		require.Len(t, traces.parent, 2)
		require.Equal(t, traces.parent[0], traces.parent[1], "both are children of the attempt")
		require.Regexp(t, "^"+taskTrace[:36]+"[0-9a-f]{16}-01$", traces.parent[0])
		require.NotEqual(t, taskTrace, traces.parent[0])
		one, two := strings.Repeat("1", 16), strings.Repeat("2", 16)
		require.Equal(t, []string{one, two}, spans)
		require.Equal(t, []string{taskTrace[:36] + one + "-01", taskTrace[:36] + two + "-01"}, passed)
		require.Equal(t, []string{one + " retryable in_doubt", two}, traces.ended)
		require.Equal(t, taskTrace, report.Header(events.HeaderTraceparent), "the report belongs to the task")
	})
}

func TestOnlySampledTracesHaveSpansOfCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var traces callTraces
		var passed []string
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			a, _ := agent.FromContext(ctx)
			passed = append(passed, a.Traceparent)
			return in, nil
		}), func(c *agent.Config) { c.Trace = traces.begin })
		unsampled := taskTrace[:53] + "00"
		report := sendTraced(t, h, unsampled)
		require.Equal(t, unsampled, report.Header(events.HeaderTraceparent))
		report = sendTraced(t, h, "")
		require.Empty(t, report.Header(events.HeaderTraceparent), "the report carries no trace context that the agent made up")
		require.Empty(t, traces.parent)
		require.Equal(t, unsampled, passed[0])
		require.Regexp(t, `-00$`, passed[1])
	})
}
