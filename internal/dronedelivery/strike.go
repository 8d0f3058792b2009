package dronedelivery

import (
	"context"
	"encoding/binary"
	"slices"
	"strconv"
	"sync"
	"time"
)

// active is a fault in force, with its defaults filled in.
type active struct {
	Fault
	// until is zero for a fault without an end.
	until time.Time
	// ended is closed when the fault is fixed or replaced.
	ended chan struct{}
}

// hits chooses by hash, so that a run with the same seed and the same calls meets the same faults.
func (a *active) hits(service string, c call) bool {
	if a.Operation != "" && a.Operation != c.operation() {
		return false
	}
	if a.Rate >= 1 {
		return true
	}
	seed := strconv.FormatUint(a.Seed, 10)
	var d digest
	if a.Mode == Refuse {
		who := c.task
		if who == "" {
			who = c.resource
		}
		d = digestOf(seed, service, string(a.Mode), who)
	} else {
		// If the caller sends no key, the resource is used instead.
		d = digestOf(seed, service, string(a.Mode), c.key, c.resource, c.method, strconv.Itoa(c.attempt))
	}
	// 53 bits, as many as a float64 holds exactly.
	return float64(binary.BigEndian.Uint64(d[:])>>11)/(1<<53) < a.Rate
}

// pause waits for d, or until the fault ends. It returns false if stop was closed first.
func (a *active) pause(d time.Duration, stop <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.ended:
	case <-stop:
		return false
	}
	return true
}

// hold waits until the caller has gone, the fault has ended, or stop.
func (a *active) hold(ctx context.Context, now time.Time, stop <-chan struct{}) {
	var over <-chan time.Time
	if !a.until.IsZero() {
		t := time.NewTimer(a.until.Sub(now))
		defer t.Stop()
		over = t.C
	}
	select {
	case <-ctx.Done():
	case <-a.ended:
	case <-over:
	case <-stop:
	}
}

// faultSet holds the faults of one service.
type faultSet struct {
	service string
	mu      sync.Mutex
	// list is guarded by mu.
	list []*active
}

// begin activates a valid fault and ends the one with the same mode and operation.
func (s *faultSet) begin(f Fault, now time.Time) *active {
	a := &active{Fault: f.filled(), ended: make(chan struct{})}
	if f.For > 0 {
		a.until = now.Add(f.For)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(o *active) bool { return o.Mode == a.Mode && o.Operation == a.Operation })
	s.list = append(s.list, a)
	return a
}

// end ends the faults of a mode, or all of them if mode is empty, and returns how many there were.
func (s *faultSet) end(mode Mode, now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	before := len(s.list)
	s.drop(func(o *active) bool { return mode == "" || o.Mode == mode })
	return before - len(s.list)
}

// inForce returns the faults that have not ended.
func (s *faultSet) inForce(now time.Time) []*active {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	return slices.Clone(s.list)
}

// strike returns the faults that hit a call. Of two with the same mode, the later one wins.
func (s *faultSet) strike(c call, now time.Time) map[Mode]*active {
	hit := map[Mode]*active{}
	if c.operation() == "" {
		return hit
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	for _, a := range s.list {
		if a.hits(s.service, c) {
			hit[a.Mode] = a
		}
	}
	return hit
}

func (s *faultSet) expire(now time.Time) {
	s.drop(func(o *active) bool { return !o.until.IsZero() && !now.Before(o.until) })
}

func (s *faultSet) drop(which func(*active) bool) {
	s.list = slices.DeleteFunc(s.list, func(a *active) bool {
		if !which(a) {
			return false
		}
		close(a.ended)
		return true
	})
}
