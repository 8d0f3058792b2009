package embedded

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"
)

// acceptPause is how long a listener waits after a failed accept, for instance for lack of file handles. kfake's own loop would end at such
// an error, and nobody could connect again.
const acceptPause = 50 * time.Millisecond

// localListener listens on a port, and also accepts connections from this process that do not use the port.
type localListener struct {
	port  net.Listener
	conns chan net.Conn
	close func() error
	// closed is closed when the listener is closed.
	closed chan struct{}
	ended  sync.WaitGroup
}

func newLocalListener(port net.Listener) *localListener {
	l := &localListener{port: port, conns: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceValue(func() error {
		close(l.closed)
		err := port.Close()
		l.ended.Wait()
		return err
	})
	l.ended.Go(l.accept)
	return l
}

// accept forwards the connections from the port.
func (l *localListener) accept() {
	for {
		conn, err := l.port.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-l.closed:
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		select {
		case l.conns <- conn:
		case <-l.closed:
			_ = conn.Close()
			return
		}
	}
}

// Accept implements net.Listener.
func (l *localListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *localListener) Close() error { return l.close() }

// Addr implements net.Listener. It returns the address of the port.
func (l *localListener) Addr() net.Addr { return l.port.Addr() }

// dial is a kafka.Dialer. Connections to the listener's own address stay in this process. After the listener is closed, they go
// to whatever listens on the port by then.
func (l *localListener) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !l.hears(addr) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	client, server := newLocalConn(l.Addr())
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "local", Addr: l.Addr(), Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *localListener) hears(addr string) bool {
	select {
	case <-l.closed:
		return false
	default:
	}
	_, port, err := net.SplitHostPort(addr)
	own, ok := l.Addr().(*net.TCPAddr)
	return err == nil && ok && port == strconv.Itoa(own.Port)
}
