package api

import (
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

// tellingListener says that nobody can connect any more, as when a process may open no more files. net/http waits and
// tries again, which is right, and tells only its own log.
type tellingListener struct {
	net.Listener
	log *slog.Logger
	// said is when it was said last, in nanoseconds since 1970.
	said atomic.Int64
}

// acceptEvery is how often it is said.
const acceptEvery = 10 * time.Second

// Accept implements net.Listener.
func (l *tellingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		if now := time.Now().UnixNano(); now-l.said.Load() > int64(acceptEvery) {
			l.said.Store(now)
			l.log.Error("the API cannot accept connections", "error", err)
		}
	}
	return c, err
}
