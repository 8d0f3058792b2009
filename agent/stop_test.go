package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/events"
)

func TestACleanStopFinishesWhatItCan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			if in.ID == "long" {
				<-ctx.Done()
				return in, ctx.Err()
			}
			wait(time.Second)
			return in, nil
		}, agent.Concurrency(2)))
		short := h.Work("package", events.Do, parcel{ID: "short"})
		long := h.Work("package", events.Do, parcel{ID: "long"})
		queued := h.Work("package", events.Do, parcel{ID: "short"})
		for _, w := range []*events.Work{&short, &long, &queued} {
			w.CompleteBy = w.CompleteBy.Add(time.Minute)
			h.Send(*w)
		}
		synctest.Wait()
		began := time.Now()
		require.NoError(t, h.Stop())
		require.Equal(t, 2*time.Second, time.Since(began), "the grace")
		reports := h.Reports()
		require.Len(t, reports, 1)
		require.Equal(t, short.Task, reports[0].Task)
		require.EqualValues(t, 1, h.Sources["package"].Committed()[0])
		heartbeats := h.Heartbeats()
		last := heartbeats[len(heartbeats)-1]
		require.Equal(t, map[string]int{"package": 0}, last.Capacity)
		require.Empty(t, last.Partitions)
	})
}

// The request of a long attempt would be too old when it is delivered again.
func TestALongAttemptThatAStopEndsIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			for n := 0; ctx.Err() == nil; n++ {
				_ = agent.Progress(ctx, n)
				wait(time.Second)
			}
			require.ErrorIs(t, context.Cause(ctx), agent.ErrStopped)
			return in, ctx.Err()
		}))
		work := beating(h)
		h.Send(work)
		wait(2 * time.Minute)
		require.NoError(t, h.Stop())
		reports := h.Reports()
		last := reports[len(reports)-1]
		require.Equal(t, events.ResultFailed, last.Result)
		require.Equal(t, work.Task, last.Task)
		require.Equal(t, events.Error{Class: events.ClassUnavailable, Code: "stopped", Message: agent.ErrStopped.Error()}, *last.Error)
		require.Equal(t, events.EffectInDoubt, last.Effect)
		require.EqualValues(t, 1, h.Sources["package"].Committed()[0], "it is not delivered again")
	})
}

// lines is what a log has said. A timer may write while the test reads.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Somebody who pressed Ctrl-C wants to know why the process is still there. A quick stop says nothing.
func TestAStopThatTakesLongSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	for took, says := range map[time.Duration]bool{500 * time.Millisecond: false, time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			var said lines
			h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
				select {
				case <-ctx.Done():
				case <-time.After(took):
				}
				return in, ctx.Err()
			}), func(c *agent.Config) { c.Log = slog.New(slog.NewTextHandler(&said, nil)) })
			w := h.Work("package", events.Do, parcel{})
			w.CompleteBy = w.CompleteBy.Add(time.Hour)
			h.Send(w)
			synctest.Wait()
			require.NoError(t, h.Stop())
			require.Equal(t, says, strings.Contains(said.String(), "the stop waits for attempts that are running\" agent=package attempts=1 at_most=4s"), said.String())
		})
	}
}

func TestAnInstanceThatStopsDeletesItsHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) { return in, nil }))
		wait(3 * time.Second)
		require.NoError(t, h.Stop())
		records, _ := h.Sink.Records()
		last := records[len(records)-1]
		require.Equal(t, "sagalog.presence", last.Topic)
		require.Equal(t, string(records[0].Key), string(last.Key))
		require.Nil(t, last.Value)
	})
}

// fencedSource belongs to an instance whose name another process has taken.
type fencedSource struct{ *agenttest.Source }

func (fencedSource) Poll(context.Context, int) ([]events.Record, error) {
	return nil, fmt.Errorf("%w: %w", transport.ErrClosed, &agent.FencedError{Instance: "i"})
}

func TestAFencedInstanceDeletesNoHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := agenttest.NewSink()
		runner, err := agent.NewRunner(handle(func(_ context.Context, in parcel) (parcel, error) { return in, nil }), agent.Config{
			Instance: "i", Sink: sink, Sources: map[string]transport.Source{"package": fencedSource{agenttest.NewSource()}},
		})
		require.NoError(t, err)
		fenced := new(agent.FencedError)
		require.ErrorAs(t, runner.Run(t.Context()), &fenced)
		records, _ := sink.Records()
		for _, r := range records {
			require.NotEmpty(t, r.Value)
		}
	})
}

func TestAFunctionThatNeverReturnsIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := handle(func(context.Context, parcel) (parcel, error) { <-release; return parcel{}, nil })
		source, sink := agenttest.NewSource(), agenttest.NewSink()
		runner, err := agent.NewRunner(r, agent.Config{
			Instance: "i", Sink: sink, Sources: map[string]transport.Source{"package": source},
		})
		require.NoError(t, err)
		w := events.Work{Task: "t", Run: 1, Step: "s", Operation: events.Do, Attempt: 1, CompleteBy: events.At(time.Now().Add(time.Hour))}
		record, err := events.EncodeWork(w, events.Subject{})
		require.NoError(t, err)
		source.Add(record)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-ended, agent.ErrStuck)
		require.Empty(t, source.Committed())
		close(release)
	})
}

func TestAStuckWorkerHoldsBackNoCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
			if in.ID == "stuck" {
				wait(time.Minute)
			}
			return in, nil
		}))
		h.Send(h.Work("package", events.Do, parcel{ID: "stuck"}))
		require.Equal(t, events.ResultCompleted, h.Do("package", parcel{}).Result)
		wait(time.Second)
		require.Empty(t, h.Sources["package"].Committed())
		wait(5 * time.Second)
		require.EqualValues(t, 2, h.Sources["package"].Committed()[0])
		wait(time.Minute)
		require.Len(t, h.Reports(), 1)
	})
}

func TestWorkIsNotRepeatedWhenItsReportIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		source := agenttest.NewSource()
		runner, err := agent.NewRunner(
			handle(func(_ context.Context, in parcel) (parcel, error) { ran++; return in, nil }),
			agent.Config{Instance: "i", Sink: refusing{}, Sources: map[string]transport.Source{"package": source}})
		require.NoError(t, err)
		w := events.Work{Task: "t", Run: 1, Step: "s", Operation: events.Do, Attempt: 1, CompleteBy: events.At(time.Now().Add(time.Hour))}
		record, err := events.EncodeWork(w, events.Subject{})
		require.NoError(t, err)
		source.Add(record)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, runner.Run(ctx))
		require.Equal(t, 1, ran)
		require.EqualValues(t, 1, source.Committed()[0])
	})
}

// While the broker is down, each of hundreds of attempts loses its report.
func TestLostReportsAreLoggedOnceAndCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		h := agenttest.Start(t, handle(echo), func(c *agent.Config) {
			c.Sink, c.Log = refusing{}, slog.New(slog.NewTextHandler(&said, nil))
		})
		for range 100 {
			h.Send(h.Work("package", events.Do, parcel{}))
		}
		wait(time.Minute)
		h.Send(h.Work("package", events.Do, parcel{}))
		wait(time.Minute)
		require.NoError(t, h.Stop())
		require.EqualValues(t, 101, h.Sources["package"].Committed()[0])
		require.Equal(t, 2, strings.Count(said.String(), "a report was not delivered"), said.String())
		require.Contains(t, said.String(), "not_shown=99")
	})
}

// Such a report holds its place only until the complete-by time.
func TestAReportWithoutAnAnswerIsGivenUpInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(echo, agent.Concurrency(1)), func(c *agent.Config) { c.Sink = silent{} })
		for range 3 {
			h.Send(h.Work("package", events.Do, parcel{}))
		}
		wait(4 * time.Second)
		require.Equal(t, 1, h.Sources["package"].Left(), "twice the concurrency is held")
		require.Empty(t, h.Sources["package"].Committed())
		wait(2 * time.Second)
		require.Zero(t, h.Sources["package"].Left())
		require.EqualValues(t, 3, h.Sources["package"].Committed()[0])
	})
}

// silent acknowledges only heartbeats.
type silent struct{}

func (silent) Produce(_ context.Context, r events.Record, done func(error)) {
	if r.Topic == "sagalog.presence" {
		done(nil)
	}
}

func TestAClosedSourceEndsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := handle(echo)
		agent.Handle(r, "other", echo)
		runner, err := agent.NewRunner(r, agent.Config{
			Instance: "i", Sink: agenttest.NewSink(),
			Sources: map[string]transport.Source{"package": closedSource{}, "other": agenttest.NewSource()},
		})
		require.NoError(t, err)
		require.ErrorIs(t, runner.Run(t.Context()), transport.ErrClosed)
	})
}

type refusing struct{}

func (refusing) Produce(_ context.Context, _ events.Record, done func(error)) { done(errBoom) }

type closedSource struct{}

func (closedSource) Poll(context.Context, int) ([]events.Record, error) {
	return nil, transport.ErrClosed
}

func (closedSource) Commit(context.Context, map[int32]transport.Position) (map[int32]transport.Position, error) {
	return nil, nil
}

func (closedSource) Assigned(int32) transport.Assigned { return transport.Assigned{} }

func (closedSource) Confirm(context.Context) (map[int32]int64, error) { return nil, nil }

func (closedSource) Partitions() []int32 { return nil }
