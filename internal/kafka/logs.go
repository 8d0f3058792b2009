package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLog passes what a client says on. Its own Info tells of each metadata update, so Info becomes Debug. It is shared
// by the clients of a cluster: while no broker answers, each of them says so many times a second.
type clientLog struct {
	log  *slog.Logger
	same *repeats
}

func newClientLog(log *slog.Logger) clientLog {
	return clientLog{log, &repeats{said: map[string]*repeated{}}}
}

// expected are what the client takes for faults and we do not: offsets for lag tools are committed also of topics that
// the group does not read, and a commit in the middle of a rebalance is refused.
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
	if at > slog.LevelDebug {
		held, due := l.same.due(msg, time.Now())
		if !due {
			return
		}
		if held > 0 {
			keyvals = append(keyvals[:len(keyvals):len(keyvals)], "not_shown", held)
		}
	}
	l.log.Log(context.Background(), at, msg, keyvals...)
}

// sameEvery is how often a message is shown that comes again and again.
const sameEvery = 10 * time.Second

// repeats holds messages back that were shown a moment ago. The client's are constant texts, so they are few.
type repeats struct {
	mu   sync.Mutex
	said map[string]*repeated
}

type repeated struct {
	at   time.Time
	held int
}

// due says whether a message is to be shown, and how many like it were not since the last one.
func (r *repeats) due(msg string, now time.Time) (held int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.said[msg]
	switch {
	case last == nil:
		r.said[msg] = &repeated{at: now}
		return 0, true
	case now.Sub(last.at) < sameEvery:
		last.held++
		return 0, false
	}
	held, last.held, last.at = last.held, 0, now
	return held, true
}

// brokerLog passes on what the embedded broker says: above all that it could not write.
type brokerLog struct{ log *slog.Logger }

func (l brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	at := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		at = slog.LevelError
	case kfake.LogLevelWarn:
		at = slog.LevelWarn
	}
	if ctx := context.Background(); l.log.Enabled(ctx, at) {
		l.log.Log(ctx, at, "embedded broker: "+fmt.Sprintf(format, args...))
	}
}

func orDiscard(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
