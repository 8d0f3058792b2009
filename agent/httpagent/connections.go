package httpagent

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
)

// connections follows the connections that one try uses.
//
// There may be several. net/http sends a request with an Idempotency-Key again, without telling its caller, if a kept connection
// breaks before the first byte of the answer. The first sending may have had an effect, and then the answer to the second says
// nothing about it: a 409 may even mean that the first succeeded.
type connections struct {
	// mu guards the fields below.
	mu     sync.Mutex
	used   int
	sent   bool
	latest net.Conn
	// givenUp says that the caller no longer waits for an answer.
	givenUp bool
}

// follow returns a context for the request of a try, and a function to call when the answer has been read. The returned context
// ends just after ctx: first the connection is prepared, so that closing it resets it.
//
// A connection that is closed in the ordinary way still delivers what its kernel has accepted. If a busy service has not read
// the request yet, the request would reach it seconds after it was given up, perhaps after its undo. A reset drops it.
func (c *connections) follow(ctx context.Context) (context.Context, func() bool) {
	sending, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		c.giveUp()
		cancel(context.Cause(ctx))
	})
	// After an answer the context is left alone: ending it could cost the connection, if net/http has not put it back yet.
	return httptrace.WithClientTrace(sending, &httptrace.ClientTrace{GotConn: c.got, WroteRequest: c.wrote}), stop
}

func (c *connections) got(info httptrace.GotConnInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used++
	c.sent = false
	c.latest = info.Conn
	if c.givenUp {
		resetOnClose(c.latest)
	}
}

func (c *connections) wrote(info httptrace.WroteRequestInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = info.Err == nil
}

func (c *connections) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.givenUp = true
	resetOnClose(c.latest)
}

// count returns how many connections were used.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// left says how much of the request has left this process.
func (c *connections) left() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.used == 0:
		return "there was no connection yet"
	case c.sent:
		return "the whole request had been sent"
	default:
		return "the request had been sent in part"
	}
}

// resetOnClose makes closing the connection a reset. An HTTP/2 connection carries other requests too: there net/http resets only
// the stream.
func resetOnClose(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			return
		}
		c = secure.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // an error means that it is closed already
	}
}
