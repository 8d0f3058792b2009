package repeats

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Every is how often a repeated message is shown: often enough that somebody who watches sees that the problem persists.
const Every = 10 * time.Second

// notShown is the key of the number of messages that were suppressed since the last one that was shown.
const notShown = "not_shown"

// Limited returns a logger that shows a message at Warn or above only if the same one was not shown in the last Every. Loggers that are
// derived from it share its memory.
func Limited(log *slog.Logger) *slog.Logger {
	return slog.New(handler{log.Handler(), &shown{last: map[string]*repeated{}}})
}

type handler struct {
	slog.Handler
	shown *shown
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.shown}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.shown}
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.Handler.Handle(ctx, r)
	}
	held, due := h.shown.due(r.Message, r.Time)
	if !due {
		return nil
	}
	if held > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int(notShown, held))
	}
	return h.Handler.Handle(ctx, r)
}

// shown remembers the messages that were shown.
type shown struct {
	mu   sync.Mutex
	last map[string]*repeated
}

type repeated struct {
	at   time.Time
	held int
}

// due reports whether to show a message, and how many of the same kind were suppressed since the last one.
func (s *shown) due(msg string, now time.Time) (held int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.last[msg]
	switch {
	case last == nil:
		s.last[msg] = &repeated{at: now}
		return 0, true
	case now.Sub(last.at) < Every:
		last.held++
		return 0, false
	}
	held, last.held, last.at = last.held, 0, now
	return held, true
}
