package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/batch"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The client returns no aborted records, and it does not say that it has read past them; only the marker after them shows it. The marker
// is missing while an earlier transaction is still open, and forever if a broker died with the transaction open and aborted it without a
// marker. A position must not wait for it: timers ask for the end of the log and wait until the position gets there. So a reader of
// committed records itself examines a partition if batches were read from it and nothing was returned.
const (
	// abortedQuiet is how long a partition must be quiet before it is examined. Under load, when records arrive anyway, that never
	// happens.
	abortedQuiet = 250 * time.Millisecond
	// abortedWait bounds one look. The next one continues from there.
	abortedWait = time.Second
	// abortedFetchBytes is how much one fetch of a look skips.
	abortedFetchBytes = 1 << 20
)

// activity is the last batch that was read from a partition.
type activity struct {
	// batch is its number. Poll compares numbers to see whether the batch was read before the records that Poll
	// returned.
	batch uint64
	at    time.Time
}

// abortedWatch tracks the partitions whose batches were read but not yet fully returned by Poll. It has its own lock, and calls nothing
// else while holding it: the client calls note during a fetch, and Add, Remove and nudge wait for the end of fetches with Reader.mu held.
type abortedWatch struct {
	mu sync.Mutex
	// mu guards the fields below.
	places map[place]activity
	// lookAt is when Poll looks at these partitions next; zero means never.
	lookAt time.Time
	// batches counts all batches. polled is its value before the latest wait.
	batches, polled uint64
	// wake ends the wait, so that Poll looks at lookAt.
	wake context.CancelFunc
}

// batchHook notes that batches of a partition were read.
type batchHook struct{ watch *abortedWatch }

// OnFetchBatchRead implements kgo.HookFetchBatchRead. It is called before any record of the batch is handed out.
func (h *batchHook) OnFetchBatchRead(_ kgo.BrokerMetadata, topic string, partition int32, _ kgo.FetchBatchMetrics) {
	if wake := h.watch.note(place{topic, partition}); wake != nil {
		wake()
	}
}

// note returns a function that wakes Poll if Poll has to look at a partition and does not know it yet.
func (s *abortedWatch) note(at place) (wake context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches++
	s.places[at] = activity{s.batches, time.Now()}
	if s.lookAt.IsZero() {
		s.lookAt = time.Now().Add(abortedQuiet)
		wake = s.wake
	}
	return wake
}

// wait is called when Poll begins to wait. It returns when to end the wait for a look.
func (s *abortedWatch) wait(wake context.CancelFunc) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake = wake
	s.polled = s.batches
	return s.lookAt
}

// again schedules another look at a partition.
func (s *abortedWatch) again(at place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[at] = activity{s.batches, time.Now()}
	s.lookAt = time.Now().Add(abortedQuiet)
}

// calm forgets the batches read from a partition before this Poll if Poll has returned everything to the end of the
// log.
func (s *abortedWatch) calm(at place, f *Fetch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.places[at]; ok && p.batch <= s.polled && f.Err == nil && f.Next == f.HighWatermark {
		delete(s.places, at)
		if len(s.places) == 0 {
			s.lookAt = time.Time{}
		}
	}
}

// due returns the partitions that have been quiet for long enough, and forgets them. It sets lookAt for the others.
func (s *abortedWatch) due(now time.Time) []place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lookAt.IsZero() || now.Before(s.lookAt) {
		return nil
	}
	var out []place
	s.lookAt = time.Time{}
	for at, p := range s.places {
		due := p.at.Add(abortedQuiet)
		if !now.Before(due) {
			out = append(out, at)
			delete(s.places, at)
		} else if s.lookAt.IsZero() || due.Before(s.lookAt) {
			s.lookAt = due
		}
	}
	return out
}

// quiet returns the partitions to look at, with their positions.
func (r *Reader) quiet() map[place]int64 {
	due := r.aborted.due(time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[place]int64)
	for _, at := range due {
		if next, ok := r.next[at]; ok {
			out[at] = next
		}
	}
	return out
}

// lookForAborted starts to look at the partitions that are due. Poll does not wait for it: the leader of one partition may be
// gone while the others continue.
func (r *Reader) lookForAborted() {
	due := r.quiet()
	if len(due) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	for at, from := range due {
		r.looks.Go(func() { r.passAborted(r.client.Context(), at, from) })
	}
}

// passAborted moves the position of a partition past records that are all aborted. It also reports a position outside the log.
// The client may lose that error if its fetches are restarted, by Add or a nudge, before Poll has seen it, and the partition
// would then be silent forever. So an added partition is looked at once, too.
func (r *Reader) passAborted(ctx context.Context, at place, from int64) {
	f, err := r.behindAborted(ctx, at, from)
	r.mu.Lock()
	defer r.mu.Unlock()
	if next, ok := r.next[at]; ok && next == from { // otherwise it was removed, moved, or read further
		f.Added = r.adds[at]
		_, outside := errors.AsType[*OutOfRangeError](err)
		switch {
		case f.Next > from: // even if it was not the end: the next look continues from there
			r.next[at] = f.Next
			r.passed = append(r.passed, f)
		case outside:
			f.Err, err = err, nil
			r.drop(at)
			r.passed = append(r.passed, f)
		}
		if err != nil && ctx.Err() == nil {
			r.aborted.again(at)
		}
	}
	if r.wake != nil {
		r.wake() // it returns the records, or knows when to look again
	}
}

// behindAborted finds the first offset, from a position on, that may hold a record that was not aborted.
func (r *Reader) behindAborted(ctx context.Context, at place, from int64) (Fetch, error) {
	ctx, cancel := context.WithTimeout(ctx, abortedWait)
	defer cancel()
	out := Fetch{Topic: at.topic, Partition: at.partition, Next: from}
	if from < 0 {
		var err error
		if out.Next, err = r.cluster.StartOffset(ctx, at.topic, at.partition); err != nil {
			return out, err
		}
	}
	for {
		got, err := r.cluster.fetch(ctx, fetchAt{
			Position: batch.Position{Topic: at.topic, Partition: at.partition, Offset: out.Next, Committed: true},
			bytes:    abortedFetchBytes,
		})
		if err != nil {
			return out, err
		}
		out.HighWatermark = got.end
		if len(got.records) > 0 {
			out.Next = max(out.Next, got.records[0].Offset)
			return out, nil
		}
		if got.next <= out.Next {
			return out, nil
		}
		out.Next = got.next
	}
}
