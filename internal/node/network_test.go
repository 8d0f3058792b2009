package node_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
)

// network is one process's way to the broker. It passes Kafka's frames on, and can lose, hold, cut and falsify them.
type network struct {
	vn *kafka.VirtualNetwork
	// topics are what a produce request must name one of for the fault to be asked.
	topics [][]byte

	// mu guards the fields below.
	mu    sync.Mutex
	down  bool
	conns map[net.Conn]struct{}
	fault func(n int) fate
	count int
	// gate is closed while traffic passes.
	gate   chan struct{}
	frozen bool
	// deaf holds back the answers alone while frozen.
	deaf bool
	// slow, if set, is how long the next frame takes.
	slow func() time.Duration
	// base is how long a frame takes otherwise, and frames counts them, so that no two take equally long.
	base   time.Duration
	frames int
	wg     sync.WaitGroup
	// received counts the bytes that came from the broker.
	received atomic.Int64
}

// fate is what happens to one produce request. The zero fate passes it.
type fate struct {
	// code, if not 0, replaces the answer's error although the records were appended.
	code int16
	// cutBefore closes the connection instead of passing the request; cutAfter instead of passing the answer.
	cutBefore, cutAfter bool
	// late passes the request on so much later, even when the connection was closed meanwhile.
	late time.Duration
	// silent loses the answer.
	silent bool
	// lost loses the request: it never arrives, and what follows on the connection does.
	lost bool
}

// errCut is what a machine says on which nobody listens. (The client tries again without a pause after an error of dialling
// that no network gives.)
var errCut = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func newNetwork(vn *kafka.VirtualNetwork) *network {
	n := &network{vn: vn, conns: map[net.Conn]struct{}{}, gate: make(chan struct{})}
	close(n.gate)
	return n
}

// freeze holds everything back in both directions until thaw, as SIGSTOP does. What was said before arrives then.
func (n *network) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hold(false)
}

// hold is called with mu held.
func (n *network) hold(answers bool) {
	if !n.frozen {
		n.gate, n.frozen = make(chan struct{}), true
	}
	n.deaf = answers
}

func (n *network) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open()
}

// open is called with mu held.
func (n *network) open() {
	if n.frozen {
		close(n.gate)
		n.frozen, n.deaf = false, false
	}
}

// pass waits while the network is frozen, and as long as a frame takes.
func (n *network) pass(answer bool) {
	n.mu.Lock()
	gate, wait := n.gate, time.Duration(0)
	if n.deaf && !answer {
		gate = nil
	}
	switch {
	case n.slow != nil:
		wait = n.slow()
	case n.base > 0:
		n.frames++
		wait = n.base + time.Duration(n.frames%1009)
	}
	n.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		<-timer.C
	}
}

// inject has every produce request that names the topic ask the fault, which gets its number from 0.
func (n *network) inject(topics [][]byte, fault func(int) fate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.topics, n.fault, n.count = topics, fault, 0
}

// cut closes every connection, and allows no more.
func (n *network) cut() {
	n.mu.Lock()
	n.down = true
	for c := range n.conns {
		_ = c.Close()
	}
	n.open() // what was held back is lost
	n.mu.Unlock()
	n.wg.Wait()
}

// Dial implements kafka.Dialer.
func (n *network) Dial(ctx context.Context, network, host string) (net.Conn, error) {
	up, err := n.vn.DialContext(ctx, network, host)
	if err != nil {
		return nil, errCut
	}
	client, near := net.Pipe()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		_ = up.Close()
		return nil, errCut
	}
	n.conns[up], n.conns[near] = struct{}{}, struct{}{}
	l := &link{n: n, near: near, up: up, answers: map[uint32]answer{}}
	n.wg.Go(l.requests)
	n.wg.Go(l.responses)
	return client, nil
}

func (n *network) ask(frame []byte) fate {
	n.mu.Lock()
	defer n.mu.Unlock()
	named := slices.ContainsFunc(n.topics, func(t []byte) bool { return bytes.Contains(frame, t) })
	if n.fault == nil || binary.BigEndian.Uint16(frame) != 0 || !named {
		return fate{}
	}
	n.count++
	return n.fault(n.count - 1)
}

// link is one connection: near is its end at the client, up the one at the broker.
type link struct {
	n        *network
	near, up net.Conn

	// mu guards answers, by correlation ID.
	mu      sync.Mutex
	answers map[uint32]answer
	writing sync.Mutex
	pending sync.WaitGroup
}

type answer struct {
	fate
	version uint16
}

func (l *link) requests() {
	defer func() {
		_ = l.near.Close()
		l.pending.Wait() // what is late still lands
		_ = l.up.Close()
		l.n.mu.Lock()
		delete(l.n.conns, l.near)
		delete(l.n.conns, l.up)
		l.n.mu.Unlock()
	}()
	for {
		frame, err := readFrame(l.near)
		if err != nil {
			return
		}
		l.n.pass(false)
		f := l.n.ask(frame)
		if f.cutBefore {
			return
		}
		if f.lost {
			continue
		}
		l.mu.Lock()
		l.answers[binary.BigEndian.Uint32(frame[4:])] = answer{f, binary.BigEndian.Uint16(frame[2:])}
		l.mu.Unlock()
		if f.late > 0 {
			l.pending.Go(func() {
				timer := time.NewTimer(f.late)
				defer timer.Stop()
				<-timer.C
				l.n.pass(false)
				l.write(frame)
			})
			continue
		}
		if !l.write(frame) {
			return
		}
	}
}

func (l *link) write(frame []byte) bool {
	l.writing.Lock()
	defer l.writing.Unlock()
	return writeFrame(l.up, frame) == nil
}

func (l *link) responses() {
	defer func() { _ = l.near.Close() }()
	for {
		frame, err := readFrame(l.up)
		if err != nil {
			return
		}
		l.n.pass(true)
		l.n.received.Add(int64(len(frame)))
		l.mu.Lock()
		id := binary.BigEndian.Uint32(frame)
		a := l.answers[id]
		delete(l.answers, id)
		l.mu.Unlock()
		switch {
		case a.cutAfter:
			_ = l.near.Close()
			continue
		case a.silent:
			continue
		case a.code != 0:
			falsify(frame, a)
		}
		if writeFrame(l.near, frame) != nil {
			continue // the client is gone; what it sent late is still answered to nobody
		}
	}
}

// falsify writes another error code into each partition of an answer to a produce request (versions 9 and later).
func falsify(frame []byte, a answer) {
	if a.version < 9 {
		panic("the answer to a produce request of version 9 or later is known here")
	}
	b := frame[5:] // correlation ID, no tags
	uvarint := func() int {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return int(v)
	}
	for range uvarint() - 1 {
		if a.version >= 13 {
			b = b[16:]
		} else {
			b = b[uvarint()-1:]
		}
		for range uvarint() - 1 {
			binary.BigEndian.PutUint16(b[4:], uint16(a.code))
			binary.BigEndian.PutUint64(b[6:], ^uint64(0))
			return // one partition to a request is what an owner sends
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func writeFrame(w io.Writer, frame []byte) error {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, len(frame)+4), uint32(len(frame)))
	_, err := w.Write(append(b, frame...))
	return err
}
