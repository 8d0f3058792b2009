package embedded

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// localConn is one end of a connection within this process. Unlike a net.Pipe, and like a socket, it keeps written bytes until
// they are read: the writer does not wait for its reader, so a request and its answer cost only two wake-ups.
type localConn struct {
	in, out       *localStream
	local, remote net.Addr
}

// newLocalConn returns both ends. addr is the address of the listener. The client's end has none.
func newLocalConn(addr net.Addr) (client, server net.Conn) {
	there, back := newLocalStream(), newLocalStream()
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} // kfake expects the address of a client to be an IP address
	return &localConn{in: back, out: there, local: from, remote: addr}, &localConn{in: there, out: back, local: addr, remote: from}
}

func (c *localConn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	if err != nil && err != io.EOF {
		err = &net.OpError{Op: "read", Net: "local", Source: c.local, Addr: c.remote, Err: err}
	}
	return n, err
}

func (c *localConn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	if err != nil {
		err = &net.OpError{Op: "write", Net: "local", Source: c.local, Addr: c.remote, Err: err}
	}
	return n, err
}

// Close ends both directions. The other end can still read what was written earlier.
func (c *localConn) Close() error {
	c.in.close(byReader)
	c.out.close(byWriter)
	return nil
}

func (c *localConn) LocalAddr() net.Addr  { return c.local }
func (c *localConn) RemoteAddr() net.Addr { return c.remote }

func (c *localConn) SetDeadline(t time.Time) error {
	c.in.reading.set(t)
	c.out.writing.set(t)
	return nil
}

func (c *localConn) SetReadDeadline(t time.Time) error {
	c.in.reading.set(t)
	return nil
}

func (c *localConn) SetWriteDeadline(t time.Time) error {
	c.out.writing.set(t)
	return nil
}

// localStreamMax bounds the unread bytes. Above it a writer waits.
const localStreamMax = 256 << 10

// localRooms is the pool of buffers for all streams. An empty stream has none, so idle connections hold no memory.
var localRooms sync.Pool // of *[]byte

type closedBy int

const (
	byReader closedBy = iota + 1
	byWriter
)

// localStream is one direction of a connection.
type localStream struct {
	mu sync.Mutex
	// mu guards the fields below, and those of reading and writing.
	room    *[]byte // bytes that were written and are unread; nil if there are none
	taken   int     // how much of it was read
	noWrite bool    // the writer has closed: nothing comes after what is unread
	noRead  bool    // the reader has closed
	reading localWait
	writing localWait
}

func newLocalStream() *localStream {
	s := &localStream{}
	s.reading = localWait{stream: s, moved: sync.Cond{L: &s.mu}}
	s.writing = localWait{stream: s, moved: sync.Cond{L: &s.mu}}
	return s
}

func (s *localStream) unread() int {
	if s.room == nil {
		return 0
	}
	return len(*s.room) - s.taken
}

func (s *localStream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.unread() == 0 && !s.noRead {
		switch {
		case s.noWrite:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		if err := s.reading.wait(); err != nil {
			return 0, err
		}
	}
	if s.noRead {
		return 0, net.ErrClosed
	}
	n := copy(p, (*s.room)[s.taken:])
	if s.taken += n; s.unread() == 0 {
		s.giveRoom()
	}
	if s.writing.waiting > 0 {
		s.writing.moved.Broadcast()
	}
	return n, nil
}

func (s *localStream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.unread() > 0 && s.unread()+len(p) > localStreamMax {
		if err := s.writable(); err != nil {
			return 0, err
		}
		if err := s.writing.wait(); err != nil {
			return 0, err
		}
	}
	if err := s.writable(); err != nil || len(p) == 0 {
		return 0, err
	}
	s.put(p)
	s.reading.moved.Signal()
	return len(p), nil
}

func (s *localStream) writable() error {
	switch {
	case s.noWrite:
		return net.ErrClosed
	case s.noRead:
		return os.NewSyscallError("write", syscall.EPIPE) // as for a socket
	}
	return nil
}

func (s *localStream) put(p []byte) {
	if s.room == nil {
		if s.room, _ = localRooms.Get().(*[]byte); s.room == nil {
			s.room = new([]byte)
		}
	}
	room := *s.room
	if s.taken > 0 && len(room)+len(p) > cap(room) {
		room = room[:copy(room, room[s.taken:])]
		s.taken = 0
	}
	*s.room = append(room, p...)
}

func (s *localStream) giveRoom() {
	if s.room != nil && cap(*s.room) <= 2*localStreamMax { // one large write must not keep its memory
		*s.room = (*s.room)[:0]
		localRooms.Put(s.room)
	}
	s.room, s.taken = nil, 0
}

func (s *localStream) close(by closedBy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by == byReader {
		s.noRead = true
		s.giveRoom()
	} else {
		s.noWrite = true
	}
	s.reading.end()
	s.writing.end()
}

// localWait makes one side wait for the other, until a deadline. A deadline is set for each request and seldom reached, so a running timer is
// left alone. If it fires before the deadline, it is started again.
type localWait struct {
	stream *localStream
	moved  sync.Cond
	until  time.Time
	timer  *time.Timer
	// firesAt is when the timer fires; zero if it does not run.
	firesAt time.Time
	waiting int
}

// set changes the deadline, also for goroutines that are already waiting.
func (w *localWait) set(t time.Time) {
	w.stream.mu.Lock()
	defer w.stream.mu.Unlock()
	w.until = t
	if w.waiting > 0 && !t.IsZero() {
		w.moved.Broadcast() // they compare it with the clock, and start the timer
	}
}

// wait waits with the stream's lock, which the caller holds.
func (w *localWait) wait() error {
	if !w.until.IsZero() {
		left := time.Until(w.until)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		if w.firesAt.IsZero() || w.firesAt.After(w.until) {
			w.firesAt = w.until
			if w.timer == nil {
				w.timer = time.AfterFunc(left, w.fired)
			} else {
				w.timer.Reset(left)
			}
		}
	}
	w.waiting++
	w.moved.Wait()
	w.waiting--
	return nil
}

func (w *localWait) fired() {
	w.stream.mu.Lock()
	defer w.stream.mu.Unlock()
	w.firesAt = time.Time{}
	w.moved.Broadcast()
}

// end is called with the stream's lock held.
func (w *localWait) end() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.moved.Broadcast()
}
