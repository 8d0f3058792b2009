package kafka

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/internal/repeats"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLog forwards the log messages of a client. The client logs each metadata update at Info, so its Info becomes our Debug.
// All clients of a cluster share it: while no broker answers, each of them would log the same many times a second.
type clientLog struct{ log *slog.Logger }

func newClientLog(log *slog.Logger) clientLog {
	return clientLog{repeats.Limited(log)}
}

// expected are messages that the client logs as errors and that are normal for us: offsets are also committed for topics that the
// group does not read, for tools that show lag; and a commit in the middle of a rebalance is refused.
var expected = []string{
	"received an OffsetCommitResponse after our group session has ended",
	"unable to commit offset for topic partition",
}

func (l clientLog) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelWarn
}

func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	at := slog.LevelDebug
	switch level {
	case kgo.LogLevelError:
		at = slog.LevelError
	case kgo.LogLevelWarn:
		at = slog.LevelWarn
	}
	if slices.ContainsFunc(expected, func(e string) bool { return strings.HasPrefix(msg, e) }) {
		at = slog.LevelDebug
	}
	l.log.Log(context.Background(), at, msg, keyvals...)
}

func orDiscard(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
