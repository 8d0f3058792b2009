package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxConnections is above what a hundred client processes open, and below the usual limit of 1,024 open files.
	maxConnections = 512
	// maxRequestBytes is the default of Apache Kafka (socket.request.max.bytes).
	maxRequestBytes = 100 << 20
	// wholeFrom is the size from which a request is passed on only when all of it has come. kfake allocates the size that a client claims.
	wholeFrom = 1 << 20
	// guardedHead is the part of a request that is judged: its length, key and version.
	guardedHead = 8
)

// guardedListener accepts at most maxConnections connections at a time, and only well-formed requests from them. kfake ends the process
// at a request with an unknown key, and anyone who reaches the port can send one, even a web page.
type guardedListener struct {
	net.Listener
	log  *slog.Logger
	open atomic.Int64
	// full is set when the refusal of connections was logged.
	full atomic.Bool
}

// Accept implements net.Listener.
func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) > maxConnections {
			l.open.Add(-1)
			_ = conn.Close()
			if !l.full.Swap(true) {
				l.log.Warn("the embedded broker refuses new connections: it has reached its limit", "connections", maxConnections)
			}
			continue
		}
		return &guardedConn{Conn: conn, log: l.log, release: sync.OnceFunc(func() { l.open.Add(-1); l.full.Store(false) })}, nil
	}
}

// guardedConn is the broker's end of a connection. It ends the connection before a request that kfake cannot survive. One goroutine reads
// at a time.
type guardedConn struct {
	net.Conn
	log     *slog.Logger
	release func()
	// head is the memory that ready uses for a small request.
	head [guardedHead]byte
	// ready holds bytes that were judged and not read yet.
	ready []byte
	// left is the number of bytes of the current request that follow ready and are still on the wire.
	left int
}

// Read implements net.Conn. It returns nothing of a request before the request's head was judged.
func (c *guardedConn) Read(p []byte) (int, error) {
	if len(c.ready) == 0 && c.left == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.ready) > 0 {
		n := copy(p, c.ready)
		c.ready = c.ready[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// next judges the head of the next request.
func (c *guardedConn) next() error {
	if _, err := io.ReadFull(c.Conn, c.head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(c.head[:])
	if err := judge(size, int16(binary.BigEndian.Uint16(c.head[4:])), int16(binary.BigEndian.Uint16(c.head[6:]))); err != nil {
		c.log.Debug("the embedded broker ends a connection", "client", c.RemoteAddr(), "error", err)
		return err
	}
	rest := int(size) - (guardedHead - 4)
	if size < wholeFrom {
		c.ready, c.left = c.head[:], rest
		return nil
	}
	var whole bytes.Buffer // grows as bytes arrive
	whole.Write(c.head[:])
	if _, err := io.CopyN(&whole, c.Conn, int64(rest)); err != nil {
		return err
	}
	c.ready = whole.Bytes()
	return nil
}

// judge returns an error for a request that must not reach kfake. Keys that kmsg knows and kfake does not serve, kfake refuses itself.
func judge(size uint32, key, version int16) error {
	if size < requestHead-requestKeyAt || size > maxRequestBytes {
		return fmt.Errorf("%w: it claims to have %d bytes", errNoRequest, size)
	}
	req := kmsg.RequestForKey(key)
	if req == nil {
		return fmt.Errorf("%w: its key is %d", errNoRequest, key)
	}
	// A client asks for the versions in the newest version that it knows, and kfake answers in one that it knows too.
	if version < 0 || version > req.MaxVersion() && kmsg.Key(key) != kmsg.ApiVersions {
		return fmt.Errorf("%w: its version is %d", errNoRequest, version)
	}
	return nil
}

// Close implements net.Conn.
func (c *guardedConn) Close() error {
	c.release()
	return c.Conn.Close()
}
