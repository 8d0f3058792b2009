package agenttest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/events"
)

// Source is a transport.Source in memory.
type Source struct {
	// mu guards the fields below.
	mu        sync.Mutex
	queue     []events.Record
	log       []events.Record
	next      map[int32]int64
	committed map[int32]transport.Position
	// found holds the offsets that were committed when the source was created, and shared the ends of its partitions at that
	// time.
	found    map[int32]transport.Position
	shared   map[int32]int64
	assigned []int32
	// deposed is set once another instance has taken over the partitions.
	deposed bool
	wake    chan struct{}
}

// ErrDeposed is returned by Commit once another source has succeeded this one.
var ErrDeposed = errors.New("agenttest: another instance has the partitions")

// NewSource returns an empty source with these partitions, or with partition 0.
func NewSource(partitions ...int32) *Source {
	if len(partitions) == 0 {
		partitions = []int32{0}
	}
	return &Source{
		next: map[int32]int64{}, committed: map[int32]transport.Position{}, found: map[int32]transport.Position{},
		shared: map[int32]int64{}, assigned: partitions,
		wake: make(chan struct{}, 1),
	}
}

// Successor returns the source that another instance would get if this one died now. It delivers again every record that is not
// committed. After the call the old source refuses to commit or confirm.
func (s *Source) Successor() *Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deposed = true
	out := NewSource(s.assigned...)
	out.log, out.next, out.shared = slices.Clone(s.log), maps.Clone(s.next), maps.Clone(s.next)
	out.committed, out.found = maps.Clone(s.committed), maps.Clone(s.committed)
	for _, r := range out.log {
		if r.Offset >= out.found[r.Partition].Next {
			out.queue = append(out.queue, r)
		}
	}
	return out
}

// Add appends a record to its partition and returns its offset.
func (s *Source) Add(r events.Record) int64 {
	s.mu.Lock()
	r.Offset = s.next[r.Partition]
	s.next[r.Partition]++
	s.log = append(s.log, r)
	s.queue = append(s.queue, r)
	s.mu.Unlock()
	s.nudge()
	return r.Offset
}

// Redeliver delivers a record at its own offset.
func (s *Source) Redeliver(r events.Record) {
	s.mu.Lock()
	s.queue = append(s.queue, r)
	s.mu.Unlock()
	s.nudge()
}

func (s *Source) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Poll implements transport.Source.
func (s *Source) Poll(ctx context.Context, most int) ([]events.Record, error) {
	for {
		s.mu.Lock()
		n := min(most, len(s.queue))
		if n > 0 {
			out := slices.Clone(s.queue[:n])
			s.queue = s.queue[n:]
			s.mu.Unlock()
			return out, nil
		}
		s.mu.Unlock()
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Assigned implements transport.Source.
func (s *Source) Assigned(partition int32) transport.Assigned {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.found[partition]
	m.Assignment = 1
	return transport.Assigned{Position: m, Shared: s.shared[partition]}
}

// Confirm implements transport.Source.
func (s *Source) Confirm(context.Context) (map[int32]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := map[int32]int64{}
	for _, p := range s.assigned {
		if !s.deposed {
			held[p] = 1
		}
	}
	return held, nil
}

// Commit implements transport.Source.
func (s *Source) Commit(_ context.Context, positions map[int32]transport.Position) (map[int32]transport.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deposed {
		return nil, ErrDeposed
	}
	maps.Copy(s.committed, positions)
	return positions, nil
}

// Partitions implements transport.Source.
func (s *Source) Partitions() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.assigned)
}

// Committed returns the committed next offsets.
func (s *Source) Committed() map[int32]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[int32]int64, len(s.committed))
	for p, m := range s.committed {
		out[p] = m.Next
	}
	return out
}

// Left returns how many records have not been polled yet.
func (s *Source) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// Sink is a transport.Sink in memory. Every record that it receives is durable at once.
type Sink struct {
	// mu guards the fields below.
	mu      sync.Mutex
	records []events.Record
	changed chan struct{}
}

// NewSink returns an empty sink.
func NewSink() *Sink { return &Sink{changed: make(chan struct{})} }

// Produce implements transport.Sink.
func (s *Sink) Produce(ctx context.Context, r events.Record, done func(error)) {
	if ctx.Err() != nil {
		done(context.Cause(ctx))
		return
	}
	s.mu.Lock()
	s.records = append(s.records, r)
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	done(nil)
}

// Records returns all records so far, and a channel that is closed when the next one arrives.
func (s *Sink) Records() ([]events.Record, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records), s.changed
}

var (
	_ transport.Source = (*Source)(nil)
	_ transport.Sink   = (*Sink)(nil)
)
