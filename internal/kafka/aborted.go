package kafka

import (
	"context"
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
	// abortedWait bounds one look, since Poll waits for it; the next one goes on.
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

// batchHook notes that batches of a partition were read.
type batchHook struct{ reader *Reader }

// OnFetchBatchRead implements kgo.HookFetchBatchRead. It is called before any record of the batch is handed out.
func (h *batchHook) OnFetchBatchRead(_ kgo.BrokerMetadata, topic string, partition int32, _ kgo.FetchBatchMetrics) {
	r := h.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	at := place{topic, partition}
	if _, ok := r.next[at]; !ok {
		return
	}
	r.batches++
	r.stirred[at] = stirring{r.batches, time.Now()}
	if r.lookAt.IsZero() {
		r.lookAt = time.Now().Add(abortedQuiet)
		if r.wake != nil {
			r.wake()
		}
	}
}

// calm forgets what was stirred of a partition before Poll, and handed out to the end of the log. It is called with mu
// held.
func (r *Reader) calm(at place, f *Fetch) {
	if s, ok := r.stirred[at]; ok && s.batch <= r.polled && f.Err == nil && f.Next == f.HighWatermark {
		delete(r.stirred, at)
		if len(r.stirred) == 0 {
			r.lookAt = time.Time{}
		}
	}
}

// quiet returns the partitions that were stirred and then quiet for long enough, with their positions.
func (r *Reader) quiet() map[place]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.lookAt.IsZero() || now.Before(r.lookAt) {
		return nil
	}
	out := make(map[place]int64)
	r.lookAt = time.Time{}
	for at, s := range r.stirred {
		due := s.at.Add(abortedQuiet)
		if next, ok := r.next[at]; ok && now.Before(due) {
			if r.lookAt.IsZero() || due.Before(r.lookAt) {
				r.lookAt = due
			}
			continue
		} else if ok {
			out[at] = next
		}
		delete(r.stirred, at)
	}
	return out
}

// passAborted moves the positions that stand in front of aborted records alone.
func (r *Reader) passAborted(ctx context.Context) []Fetch {
	var out []Fetch
	for at, from := range r.quiet() {
		f, err := r.behindAborted(ctx, at, from)
		r.mu.Lock()
		switch next, ok := r.next[at]; {
		case !ok || next != from: // removed, moved, or read on
		case err != nil:
			r.stirred[at] = stirring{r.batches, time.Now()}
			r.lookAt = time.Now().Add(abortedQuiet)
		case f.Next > from:
			r.next[at] = f.Next
			out = append(out, f)
		}
		r.mu.Unlock()
	}
	return out
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
