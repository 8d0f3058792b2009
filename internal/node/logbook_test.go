package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// logBook keeps the log lines of the engine.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logBook) logger() *slog.Logger { return slog.New(bookHandler{b: b}) }

// find returns the lines that contain the text.
func (b *logBook) find(text string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for _, l := range b.lines {
		if strings.Contains(l, text) {
			list = append(list, l)
		}
	}
	return list
}

type bookHandler struct {
	b    *logBook
	with []slog.Attr
}

func (h bookHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (h bookHandler) WithAttrs(with []slog.Attr) slog.Handler {
	return bookHandler{h.b, append(slices.Clip(h.with), with...)}
}
func (h bookHandler) WithGroup(string) slog.Handler { return h }
func (h bookHandler) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.AddAttrs(h.with...)
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	h.b.lines = append(h.b.lines, line)
	return nil
}
