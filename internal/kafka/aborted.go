package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The client hands out neither aborted records nor the fact that it has read past them; what tells is the marker behind
// them. It may be missing for as long as another transaction is open in front of it, and for ever where a broker died
// with the transaction open and aborted it without one. A position must not wait for it: whoever asks for the end of
// the log and waits to be there (timers, tokens) would wait too. So a reader of committed records looks by itself at a
// partition of which batches were read and nothing was handed out.
const (
	// abortedQuiet is how long a partition is quiet before it is looked at: under load, where records come anyway, never.
	abortedQuiet = 250 * time.Millisecond
	// abortedWait bounds one look; the next one goes on.
	abortedWait = time.Second
	// abortedFetchBytes is how much one question passes over.
	abortedFetchBytes = 1 << 20
)

// stirring is that batches of a partition were read.
type stirring struct {
	// batch is the number of the last of them, by which Poll tells whether what it handed out came later.
	batch uint64
	at    time.Time
}

// stir is which partitions were stirred: batches of them were read that Poll has not handed out to the end. Its lock is
// its own and nothing is called with it held, since the client calls note out of a fetch, and with Reader.mu held there
// is waiting for the end of fetches (Add, Remove, the nudge).
type stir struct {
	mu sync.Mutex
	// mu guards the fields below.
	places map[place]stirring
	// lookAt is when Poll sees whether they were aborted; zero is never.
	lookAt time.Time
	// batches counts, and polled is how many there were before the latest wait.
	batches, polled uint64
	// wake ends the wait, so that Poll looks at lookAt.
	wake context.CancelFunc
}

// batchHook notes that batches of a partition were read.
type batchHook struct{ stir *stir }

// OnFetchBatchRead implements kgo.HookFetchBatchRead. It is called before any record of the batch is handed out.
func (h *batchHook) OnFetchBatchRead(_ kgo.BrokerMetadata, topic string, partition int32, _ kgo.FetchBatchMetrics) {
	if wake := h.stir.note(place{topic, partition}); wake != nil {
		wake()
	}
}

// note returns how to wake Poll, if that has to look at something and does not know it.
func (s *stir) note(at place) (wake context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches++
	s.places[at] = stirring{s.batches, time.Now()}
	if s.lookAt.IsZero() {
		s.lookAt = time.Now().Add(abortedQuiet)
		wake = s.wake
	}
	return wake
}

// wait begins a wait of Poll, which wake ends, and returns when to end it to look.
func (s *stir) wait(wake context.CancelFunc) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake = wake
	s.polled = s.batches
	return s.lookAt
}

// again has a partition looked at once more.
func (s *stir) again(at place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[at] = stirring{s.batches, time.Now()}
	s.lookAt = time.Now().Add(abortedQuiet)
}

// calm forgets what was stirred of a partition before Poll, and handed out to the end of the log.
func (s *stir) calm(at place, f *Fetch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.places[at]; ok && p.batch <= s.polled && f.Err == nil && f.Next == f.HighWatermark {
		delete(s.places, at)
		if len(s.places) == 0 {
			s.lookAt = time.Time{}
		}
	}
}

// due returns the partitions that were stirred and then quiet for long enough, and forgets them. When others will be is
// in lookAt.
func (s *stir) due(now time.Time) []place {
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

// quiet returns the partitions that are to be looked at, with their positions.
func (r *Reader) quiet() map[place]int64 {
	due := r.stirred.due(time.Now())
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

// lookForAborted begins to look at the partitions that are due. Poll does not wait for it: the leader of one partition
// may be gone, and the others go on.
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

// passAborted moves the position of a partition that stands in front of aborted records alone. It also tells of a position
// outside the log: the client may lose that error where its fetches are restarted before it was polled, as by an Add of
// another partition or a nudge, and then nothing would ever come. So what was added is looked at once, too.
func (r *Reader) passAborted(ctx context.Context, at place, from int64) {
	f, err := r.behindAborted(ctx, at, from)
	r.mu.Lock()
	defer r.mu.Unlock()
	if next, ok := r.next[at]; ok && next == from { // else it was removed, moved, or read on
		f.Added = r.adds[at]
		_, outside := errors.AsType[*OutOfRangeError](err)
		switch {
		case f.Next > from: // also if it was not the end: the next look goes on from there
			r.next[at] = f.Next
			r.passed = append(r.passed, f)
		case outside:
			f.Err, err = err, nil
			r.drop(at)
			r.passed = append(r.passed, f)
		}
		if err != nil && ctx.Err() == nil {
			r.stirred.again(at)
		}
	}
	if r.wake != nil {
		r.wake() // it returns what was passed, or knows when to look again
	}
}

// behindAborted finds the first offset from a position on that may hold more than aborted records.
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
			topic: at.topic, partition: at.partition, offset: out.Next, bytes: abortedFetchBytes, unpack: r.unpack, committed: true,
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
