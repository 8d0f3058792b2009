package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// dialTimeout bounds TCP and TLS together. If packets to a broker vanish, a call goes on to the next broker after that, and must have time
// left: the client's default of 10 s is all the time that some calls have. It is not smaller, because TLS across the world takes three
// trips of 300 ms, and a lost first packet another second.
const dialTimeout = 2 * time.Second

// dialer opens the connections of all clients of a Cluster. Clients ask the brokers in turn, so while packets to one of three brokers vanish,
// every third request would wait for dialTimeout, and a start makes many. So the dialer remembers the silent addresses and refuses
// to dial them, until a dial in the background finds that they answer again.
type dialer struct {
	base   Dialer
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup

	// mu guards silent.
	mu     sync.Mutex
	silent map[string]*silence
}

// silence is an address that does not answer.
type silence struct {
	err error
	// asked says that a client has wanted to connect since the last dial in the background.
	asked bool
}

func newDialer(cfg *ClusterConfig) *dialer {
	d := &dialer{base: cfg.Dialer, silent: map[string]*silence{}}
	switch {
	case cfg.Dialer != nil:
	case cfg.TLS != nil:
		d.base = (&tls.Dialer{Config: cfg.TLS}).DialContext
	default:
		d.base = (&net.Dialer{}).DialContext
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// dial is the Dialer of the clients.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := d.refuse(addr); err != nil {
		return nil, err
	}
	conn, err := d.try(ctx, network, addr)
	if isSilent(err) {
		d.remember(network, addr, err)
	}
	return conn, err
}

// refuse returns the error of the last dial of a silent address, otherwise nil.
func (d *dialer) refuse(addr string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.silent[addr]
	if s == nil {
		return nil
	}
	s.asked = true
	return s.err
}

// try dials once. Its error is a silentError if the time has passed, and not that of the caller.
func (d *dialer) try(ctx context.Context, network, addr string) (net.Conn, error) {
	within, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := d.base(within, network, addr)
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		return conn, err
	}
	ours, _ := within.Deadline()
	if theirs, bounded := ctx.Deadline(); ctx.Err() != nil || bounded && !theirs.After(ours) {
		return conn, err
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: &silentError{addr, err}}
}

// remember refuses an address until it answers, or until no client has asked for it during a dial in the background.
func (d *dialer) remember(network, addr string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil || d.silent[addr] != nil {
		return
	}
	s := &silence{err: err}
	d.silent[addr] = s
	d.ended.Go(func() {
		for again := true; again; {
			conn, err := d.try(d.ctx, network, addr)
			if err == nil {
				_ = conn.Close()
			}
			d.mu.Lock()
			if again = isSilent(err) && s.asked; !again {
				delete(d.silent, addr)
			}
			s.asked = false
			d.mu.Unlock()
		}
	})
}

// close waits for the dials in the background.
func (d *dialer) close() {
	d.mu.Lock()
	d.cancel()
	d.mu.Unlock()
	d.ended.Wait()
}

// silentError is within the error of a dial of an address from which nothing came back. To the client it is a timeout of the network,
// after which it asks another broker.
type silentError struct {
	addr string
	err  error
}

func (e *silentError) Error() string   { return e.addr + " does not answer: " + e.err.Error() }
func (e *silentError) Timeout() bool   { return true }
func (e *silentError) Temporary() bool { return true }

func isSilent(err error) bool {
	_, ok := errors.AsType[*silentError](err)
	return ok
}
