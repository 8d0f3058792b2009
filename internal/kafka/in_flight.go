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

	// stop ends the watch of the caller's context, if that can end. It returns false if the context ended first, which answers the caller.
	stop func() bool
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

// free returns s to the pool. The client may no longer refer to it.
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
	// shared says that the record counts against the share of its destination.
	shared bool

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

// watch answers the caller if ctx ends before s.stop is called. It uses a copy of the callback, because then the client's answer may
// arrive at the same time, and s be reused for another record.
func (s *sending) watch(ctx context.Context) {
	to := s.to
	s.stop = context.AfterFunc(ctx, func() { to.call(-1, context.Cause(ctx)) })
}
