package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sending is one record on its way through the shared producer. Records are many, so these are used again and again. It
// is the context of its record, by which the one callback for all records finds it, and it never ends: a context that did
// would have the client fail the records behind it.
type sending struct {
	record kgo.Record
	// headers is the room that record.Headers takes.
	headers []kgo.RecordHeader
	client  *kgo.Client
	to      answer

	// hung is set while a caller is watched that may hang up. It is guarded by hangUps.mu, as are next and prev, which
	// link those that wait with the same context.
	hung       *hangUp
	next, prev *sending
	// watched is whether hung was ever set.
	watched bool
}

var sendings = sync.Pool{New: func() any { return new(sending) }}

// The client may ask a context after the record was answered, so these look at nothing.

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
	s.to.topic, s.to.partition = r.Topic, r.Partition
	return s
}

// free gives s back. Nobody may hold it: neither the client nor who watches its caller.
func (s *sending) free() {
	clear(s.record.Headers)
	*s = sending{headers: s.headers}
	sendings.Put(s)
}

// answer is whom to tell: one, or each with its index. The place is here too, because the client writes to its record.
type answer struct {
	topic     string
	partition int32

	i    int
	one  func(partition int32, offset int64, err error)
	each func(i int, partition int32, offset int64, err error)
}

func (a *answer) give(offset int64, err error) {
	if err != nil {
		offset, err = -1, produceFailed(a.topic, a.partition, err)
	}
	if a.one != nil {
		a.one(a.partition, offset, err)
		return
	}
	a.each(a.i, a.partition, offset, err)
}

// hangUps are the callers whose contexts can end while they wait. Records that wait with one context, as all those of an
// owner or an agent do, are watched together.
type hangUps struct {
	mu sync.Mutex
	// waiting is guarded by mu. Its key is what ends a context, so contexts that end together are one.
	waiting map[<-chan struct{}]*hangUp
}

// hangUp is the records that wait with one context.
type hangUp struct {
	ended <-chan struct{}
	first *sending
	// stop ends the watch.
	stop func() bool
}

// watch has s answered when ctx ends before forget is called.
func (h *hangUps) watch(ctx context.Context, s *sending) {
	ended := ctx.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.waiting[ended]
	if u == nil {
		u = &hangUp{ended: ended}
		h.waiting[ended] = u
		u.stop = context.AfterFunc(ctx, func() { h.end(ctx, ended) })
	}
	s.watched, s.hung, s.next = true, u, u.first
	if u.first != nil {
		u.first.prev = s
	}
	u.first = s
}

// end answers all that wait with a context. What it calls, it copies before: once the lock is free, the client's answer
// may come and a sending be used for another record.
func (h *hangUps) end(ctx context.Context, ended <-chan struct{}) {
	var all []answer
	h.mu.Lock()
	if u := h.waiting[ended]; u != nil {
		delete(h.waiting, ended)
		for s := u.first; s != nil; {
			next := s.next
			all = append(all, s.to)
			s.hung, s.next, s.prev = nil, nil, nil
			s = next
		}
	}
	h.mu.Unlock()
	for i := range all {
		all[i].give(-1, context.Cause(ctx))
	}
}

// forget ends the watch over s, and tells whether its caller is still to be answered.
func (h *hangUps) forget(s *sending) bool {
	if !s.watched {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	u := s.hung
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
	s.hung, s.next, s.prev = nil, nil, nil
	if u.first == nil {
		delete(h.waiting, u.ended)
		u.stop()
	}
	return true
}
