package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// dialTimeout bounds TCP and TLS together. If packets to a broker are lost, a call moves on to the next broker after this time and must
// still have time left, so it is much less than the client's default of 10 s, which is all the time some calls have. It is not
// smaller, because TLS across the world takes three round trips of 300 ms, and a lost first packet costs another second.
const dialTimeout = 2 * time.Second

// slowDialTimeout is the timeout for a broker that is merely slow to reach, for example because a name server does not answer:
// every second dial in the background may take this long and, once such a dial has reached the broker, all dials to it.
const slowDialTimeout = 10 * time.Second

// dialer opens the connections of all clients of a Cluster. Clients ask the brokers in turn. If one of three brokers is cut off, every
// third request would wait for dialTimeout, and a start makes many requests. So the dialer remembers which addresses are silent and
// refuses to dial them until a dial in the background finds that they answer again.
type dialer struct {
	base   Dialer
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup

	// mu guards the fields below.
	mu     sync.Mutex
	silent map[string]*silence
	// slow holds the addresses that answered, but not within dialTimeout.
	slow map[string]bool
}

// silence is an address that does not answer.
type silence struct {
	err error
	// asked says that a client has tried to connect since the last dial in the background.
	asked bool
}

func newDialer(cfg *ClusterConfig) *dialer {
	d := &dialer{base: cfg.Dialer, silent: map[string]*silence{}, slow: map[string]bool{}}
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
	conn, err := d.try(ctx, network, addr, d.timeout(addr))
	if isSilent(err) {
		d.remember(network, addr, err)
	}
	return conn, err
}

// refuse returns the error of the dial that found the address silent, or nil if it is not silent.
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

// timeout is how long a client's dial may take.
func (d *dialer) timeout(addr string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.slow[addr] {
		return slowDialTimeout
	}
	return dialTimeout
}

// try dials once. If the timeout ends the dial, and not the caller's own deadline, the error holds a silentError.
func (d *dialer) try(ctx context.Context, network, addr string, timeout time.Duration) (net.Conn, error) {
	within, cancel := context.WithTimeout(ctx, timeout)
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

// remember makes refuse reject an address until it answers, or until no client asks for it during a dial in the background.
func (d *dialer) remember(network, addr string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil || d.silent[addr] != nil {
		return
	}
	s := &silence{err: err}
	d.silent[addr] = s
	d.ended.Go(func() {
		timeout, other := dialTimeout, slowDialTimeout
		for again := true; again; timeout, other = other, timeout {
			begun := time.Now()
			conn, err := d.try(d.ctx, network, addr, timeout)
			if err == nil {
				_ = conn.Close()
			}
			d.mu.Lock()
			if err == nil && time.Since(begun) > dialTimeout {
				d.slow[addr] = true
			}
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

// silentError is wrapped in the error of a dial to an address that did not answer. The client treats it as a network timeout and asks
// another broker.
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
