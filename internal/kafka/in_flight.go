package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sending is one record on its way through the shared producer. It is pooled, because there are many. It is also the context of its
// record, so that the single callback for all records can find it. This context never ends: if it did, the client would fail the records
// after it.
type sending struct {
	record kgo.Record
	// headers is the memory of record.Headers.
	headers []kgo.RecordHeader
	client  *kgo.Client
	to      answer

	// cancel is set while a caller whose context can end waits. It is guarded by cancellations.mu, as are next and prev, which link the
	// records that wait with the same context.
	cancel     *cancellation
	next, prev *sending
	// watched says whether cancel was ever set.
	watched bool
}

var sendings = sync.Pool{New: func() any { return new(sending) }}

// The client may call these methods after the record was answered, so they do not read any field.

func (*sending) Deadline() (time.Time, bool) { return time.Time{}, false }
func (*sending) Done() <-chan struct{}       { return nil }
func (*sending) Err() error                  { return nil }
func (*sending) Value(any) any               { return nil }

func newSending(r *events.Record, to answer) *sending {
	s := sendings.Get().(*sending)
	if cap(s.headers) < len(r.Headers) {
		s.headers = make([]kgo.RecordHeader, len(r.Headers))
	}
	fillKgo(&s.record, r, s.headers[:len(r.Headers)])
	s.record.Context = s
	s.to = to
	return s
}

// free returns s to the pool. Neither the client nor cancellations may still refer to it.
func (s *sending) free() {
	clear(s.record.Headers)
	*s = sending{headers: s.headers}
	sendings.Put(s)
}

// answer holds the caller's callback: one for a single record, or each for a batch, with the index of the record. It keeps
// topic and partition, because the client writes to its record.
type answer struct {
	topic     string
	partition int32
	// share is what the record counts against, nil if it counts against none.
	share *share

	i    int
	one  func(partition int32, offset int64, err error)
	each func(i int, partition int32, offset int64, err error)
}

func (a *answer) call(offset int64, err error) {
	if err != nil {
		offset, err = -1, fmt.Errorf("produce to %s/%d: %w", a.topic, a.partition, err)
	}
	if a.one != nil {
		a.one(a.partition, offset, err)
		return
	}
	a.each(a.i, a.partition, offset, err)
}

// cancellations watches the contexts of waiting callers. Records with the same context, such as all records of one owner or agent, are
// watched together.
type cancellations struct {
	mu sync.Mutex
	// waiting is guarded by mu. The key is the Done channel, so contexts that share it share an entry.
	waiting map[<-chan struct{}]*cancellation
}

// cancellation holds the records that wait with one context.
type cancellation struct {
	ended <-chan struct{}
	first *sending
	// stop ends the watch.
	stop func() bool
}

// watch answers s if ctx ends before forget is called.
func (h *cancellations) watch(ctx context.Context, s *sending) {
	ended := ctx.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.waiting[ended]
	if u == nil {
		u = &cancellation{ended: ended}
		h.waiting[ended] = u
		u.stop = context.AfterFunc(ctx, func() { h.end(ctx, ended) })
	}
	s.watched, s.cancel, s.next = true, u, u.first
	if u.first != nil {
		u.first.prev = s
	}
	u.first = s
}

// end answers all records that wait with a context. It copies their callbacks under the lock, because after unlocking, the client's answer
// may arrive and the sending may be reused for another record.
func (h *cancellations) end(ctx context.Context, ended <-chan struct{}) {
	var all []answer
	h.mu.Lock()
	if u := h.waiting[ended]; u != nil {
		delete(h.waiting, ended)
		for s := u.first; s != nil; {
			next := s.next
			all = append(all, s.to)
			s.cancel, s.next, s.prev = nil, nil, nil
			s = next
		}
	}
	h.mu.Unlock()
	for i := range all {
		all[i].call(-1, context.Cause(ctx))
	}
}

// forget stops watching s, and returns whether its caller must still be answered.
func (h *cancellations) forget(s *sending) bool {
	if !s.watched {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	u := s.cancel
	if u == nil {
		return false
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		u.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.cancel, s.next, s.prev = nil, nil, nil
	if u.first == nil {
		delete(h.waiting, u.ended)
		u.stop()
	}
	return true
}
