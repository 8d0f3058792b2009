package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// PortBusyError is returned by Listen when something else listens on the address.
type PortBusyError struct{ Addr string }

func (e *PortBusyError) Error() string {
	return fmt.Sprintf("%s is in use: stop the process that listens there, or choose another address with --http (port 0 takes a free one)", e.Addr)
}

func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &PortBusyError{Addr: addr}
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the API (--http %s): %w", addr, err)
	}
	return l, nil
}

// boundedListener accepts a connection when there is room for it. It logs when connections cannot be accepted, for example
// because the process may open no more files: net/http rightly waits and tries again, but logs that only for debugging.
type boundedListener struct {
	net.Listener
	// room holds a place for each open connection.
	room chan struct{}
	log  *slog.Logger
	// logged is when such an error was last logged, in nanoseconds since 1970.
	logged atomic.Int64
}

// acceptErrorEvery is how often such errors are logged.
const acceptErrorEvery = 10 * time.Second

// Accept implements net.Listener. After Close it returns once there is room, which the server makes by closing its connections.
func (l *boundedListener) Accept() (net.Conn, error) {
	l.room <- struct{}{}
	c, err := l.Listener.Accept()
	if err == nil {
		return &placedConn{Conn: c, leave: sync.OnceFunc(func() { <-l.room })}, nil
	}
	<-l.room
	if err != nil && !errors.Is(err, net.ErrClosed) {
		if now := time.Now().UnixNano(); now-l.logged.Load() > int64(acceptErrorEvery) {
			l.logged.Store(now)
			l.log.Error("the API cannot accept connections", "error", err)
		}
	}
	return nil, err
}

// placedConn frees its place when it is closed.
type placedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *placedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
