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

	"github.com/sagalog/sagalog/internal/kafka/embedded"
)

// network is one process's connection to the broker. It forwards Kafka's frames, and can lose, delay or falsify them,
// or cut the connection.
type network struct {
	vn *embedded.VirtualNetwork
	// topics are the topics with a fault: each produce request that names one of them gets its fate from the fault.
	topics [][]byte

	// mu guards the fields below.
	mu    sync.Mutex
	down  bool
	conns map[net.Conn]struct{}
	fault func(n int) fate
	count int
	// gate is closed while traffic may pass.
	gate   chan struct{}
	frozen bool
	// deaf makes a freeze hold back answers only.
	deaf bool
	// slow, if set, is how long the next frame takes.
	slow func() time.Duration
	// base is how long a frame takes otherwise. frames counts the frames, so that no two of them take exactly as long.
	base   time.Duration
	frames int
	// away holds, for each broker that this process does not reach, a channel that is closed when it does again.
	away map[string]chan struct{}
	wg   sync.WaitGroup
	// received counts the bytes that came from the broker.
	received atomic.Int64
}

// fate is what happens to one produce request. The zero fate forwards it.
type fate struct {
	// code, if not 0, replaces the answer's error although the records were appended.
	code int16
	// cutBefore closes the connection instead of forwarding the request, cutAfter instead of forwarding the
	// answer.
	cutBefore, cutAfter bool
	// late delays the request, which is forwarded even if the connection was closed meanwhile.
	late time.Duration
	// silent loses the answer.
	silent bool
	// lost loses the request: it never arrives, and later ones on the connection do.
	lost bool
}

// errCut is the error of a machine that refuses connections. (It must be one that a real network returns: after any
// other dial error the client tries again without a pause.)
var errCut = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func newNetwork(vn *embedded.VirtualNetwork) *network {
	n := &network{vn: vn, conns: map[net.Conn]struct{}{}, gate: make(chan struct{})}
	close(n.gate)
	return n
}

// freeze holds everything back in both directions until thaw, like SIGSTOP. Frames that were already sent arrive then.
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

// lose makes packets to and from a broker wait until the returned function is called. The network neither refuses nor ends a
// connection.
func (n *network) lose(host string) (find func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away == nil {
		n.away = map[string]chan struct{}{}
	}
	gate := make(chan struct{})
	n.away[host] = gate
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		close(gate)
		delete(n.away, host)
	})
}

// reaches waits until packets to a broker arrive.
func (n *network) reaches(ctx context.Context, host string) error {
	n.mu.Lock()
	gate := n.away[host]
	n.mu.Unlock()
	if gate == nil {
		return nil
	}
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
	}
}

// pass waits until the network is not frozen, and then as long as a frame takes.
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

// inject makes every produce request that names the topic get its fate from the fault, which is called with the number
// of the request, from 0.
func (n *network) inject(topics [][]byte, fault func(int) fate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.topics, n.fault, n.count = topics, fault, 0
}

// cut closes every connection and allows no new ones.
func (n *network) cut() {
	n.mu.Lock()
	n.down = true
	for c := range n.conns {
		_ = c.Close()
	}
	n.open() // frames that were held back are lost
	n.mu.Unlock()
	n.wg.Wait()
}

// Dial implements kafka.Dialer.
func (n *network) Dial(ctx context.Context, network, host string) (net.Conn, error) {
	if err := n.reaches(ctx, host); err != nil {
		return nil, err
	}
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
	l := &link{n: n, host: host, near: near, up: up, answers: map[uint32]answer{}}
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

// link is one connection. near is the client's end of it, and up is the end at the broker.
type link struct {
	n        *network
	host     string
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
		l.pending.Wait() // late requests still arrive
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
		_ = l.n.reaches(context.Background(), l.host)
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
		_ = l.n.reaches(context.Background(), l.host)
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
			continue // the client is gone, and the answer to its late request is dropped
		}
	}
}

// falsify writes another error code into each partition of an answer to a produce request (versions 9 and later).
func falsify(frame []byte, a answer) {
	if a.version < 9 {
		panic("only the answer to a produce request of version 9 or later can be falsified")
	}
	b := frame[5:] // skip the correlation ID and the empty tags
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
			return // an owner sends one partition in a request
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
