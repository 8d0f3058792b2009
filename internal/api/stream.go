package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/pause"
)

const (
	// keepAliveEvery is below the half minute after which proxies cut silent connections.
	keepAliveEvery = 15 * time.Second
	// streamWrite bounds one write to a client that does not read.
	streamWrite = 10 * time.Second
	// streamPage is how many facts are read at once for a stream.
	streamPage = 256
)

// eventStream writes server-sent events. huma's own takes only whole numbers as IDs; ours are cursors.
type eventStream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (e eventStream) send(id, name string, data []byte) error {
	var b strings.Builder
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + name + "\ndata: ")
	b.Write(data)
	b.WriteString("\n\n")
	return e.write(b.String())
}

func (e eventStream) write(text string) error {
	_ = e.c.SetWriteDeadline(time.Now().Add(streamWrite))
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.c.Flush()
}

// follow answers with a stream of the task's facts, after the last that the client has.
func (s *histories) follow(ctx context.Context, in *HistoryQuery) (*huma.StreamResponse, error) {
	cursor, parameter := in.LastEventID, "Last-Event-ID"
	if cursor == "" {
		cursor, parameter = in.Cursor, "cursor"
	}
	from, err := s.after(in.ID, cursor, parameter)
	if err != nil {
		return nil, err
	}
	t, err := s.log.known(ctx, s.tasks, in.ID)
	if err != nil {
		return nil, err
	}
	if from > 0 && t.State.Ended() {
		facts, err := s.history.History(ctx, in.ID, from, 1)
		if err != nil {
			return nil, s.log.internal(ctx, "read a history", err)
		}
		if len(facts) == 0 { // a browser reconnects after every end, until the answer is 204
			return &huma.StreamResponse{Body: func(c huma.Context) { c.SetStatus(http.StatusNoContent) }}, nil
		}
	}
	return &huma.StreamResponse{Body: func(c huma.Context) { s.stream(exchangeOf(ctx), in.ID, from) }}, nil
}

func (s *histories) stream(x exchange, id string, from int64) {
	select {
	case s.room <- struct{}{}:
	default:
		writeProblem(x.w, x.r, problem(http.StatusServiceUnavailable, codeUnavailable,
			fmt.Sprintf("%d histories are being followed at this node. Read this one in pages, or ask again later.", cap(s.room))).retryAfter(5*time.Second))
		return
	}
	defer func() { <-s.room }()
	s.streams.Inc()
	defer s.streams.Dec()
	ctx, cancel := s.life.until(x.r.Context())
	defer cancel()
	h := x.w.Header()
	h.Set("Content-Type", contentEventStream)
	h.Set("X-Accel-Buffering", "no")
	x.w.WriteHeader(http.StatusOK)
	out := eventStream{x.w, http.NewResponseController(x.w)}
	if out.write(": "+strconv.Quote(id)+"\n\n") != nil {
		return
	}
	ticks := time.NewTicker(keepAliveEvery)
	defer ticks.Stop()
	open := &messages{keys: s.keys}
	changes, stop := s.tasks.WatchTask(id, nil)
	defer stop()
	for {
		began := time.Now()
		ended, err := s.sendNew(ctx, out, following{id, &from, open})
		if err != nil || ended {
			return
		}
		pause.For(ctx, afterLook(time.Since(began)))
		if !awaitChange(ctx, out, changes, ticks.C) {
			return
		}
	}
}

const (
	// lookShare, lookPauseMin and lookPauseMax bound how often a follower looks at its task: a task of many items may change hundreds of times a second,
	// and a look reads all of it. The follower looks for one part of its time and pauses for lookShare parts, as far as these bounds allow.
	lookShare    = 9
	lookPauseMin = 20 * time.Millisecond
	lookPauseMax = 500 * time.Millisecond
)

// afterLook returns how long a follower pauses after a look that took so long.
func afterLook(took time.Duration) time.Duration {
	return min(max(lookShare*took, lookPauseMin), lookPauseMax)
}

// awaitChange returns false when the stream is over.
func awaitChange(ctx context.Context, out eventStream, changed <-chan struct{}, keepAlive <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-changed:
			return true
		case <-keepAlive:
			if out.write(": still here\n\n") != nil {
				return false
			}
		}
	}
}

// following is a task whose facts from *from on are sent.
type following struct {
	task string
	from *int64
	open *messages
}

// sendNew sends the facts from *from on. The task is read before its facts: if it had ended by then, the facts are
// complete.
func (s *histories) sendNew(ctx context.Context, out eventStream, of following) (ended bool, err error) {
	t, err := s.tasks.Task(ctx, of.task)
	if err != nil {
		return false, s.log.internal(ctx, "look up a task", err)
	}
	for {
		facts, err := s.history.History(ctx, of.task, *of.from, streamPage)
		if err != nil {
			return false, s.log.internal(ctx, "read a history", err)
		}
		for _, f := range facts {
			e := of.open.event(f)
			b, err := events.Marshal(e)
			if err != nil {
				return false, s.log.internal(ctx, "encode a history", err)
			}
			if err := out.send(cursorOf(e.Partition, e.Offset), e.Type, b); err != nil {
				return false, err
			}
			*of.from = e.Offset + 1
		}
		if len(facts) < streamPage {
			break
		}
	}
	switch {
	case t == nil:
		return true, nil // it was swept
	case t.State.Ended():
		return true, out.send("", "end", fmt.Appendf(nil, `{"state":%q}`, t.State))
	}
	return false, nil
}
