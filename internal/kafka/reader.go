package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/batch"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// maxDecompress is twice the maximum size of a dead letter: more than any record of ours, and small enough that a hostile
	// batch cannot exhaust the memory.
	maxDecompress = 16 << 20
	// defaultMaxWait is long, because data wakes a waiting fetch at once, and an idle node then costs nothing.
	defaultMaxWait = 5 * time.Second
	// defaultPollRecords bounds one Poll, so that one busy partition does not hold up the loop that reads.
	defaultPollRecords = 4_096
	fetchMaxBytes      = 32 << 20
	// fetchMaxPartition holds about two thousand facts. More would only use more memory: the embedded broker copies the answer for
	// one partition about once for each batch in it.
	fetchMaxPartition = 1 << 20
)

// ReaderConfig says how a Reader reads.
type ReaderConfig struct {
	// ReadCommitted reads up to the last stable offset and leaves out aborted records.
	ReadCommitted bool
	// KeepControl also returns the markers of transactions, as records with Control set.
	KeepControl bool
	// MaxRecords bounds one Poll; default 4,096.
	MaxRecords int
	// MaxWait is how long a broker holds a fetch while there is nothing to read; default 5 s.
	MaxWait time.Duration
}

// Fetch is what one Poll returned for one partition.
type Fetch struct {
	Topic     string
	Partition int32
	// Added is the number that Add returned. It distinguishes records that were polled before the partition was moved from later
	// ones.
	Added uint64
	// Records are in the order of the log. They may be empty although Next has moved past markers and aborted records.
	Records []events.Record
	// Next is the offset to read next. It is after the last record, and after any marker that Records leaves out.
	Next int64
	// HighWatermark is the end of the log at this fetch, including the records of open transactions.
	HighWatermark int64
	// Err is the reason why reading of this partition has stopped: *OutOfRangeError, *DataLossError, *TooLargeError, or an error of
	// the broker. The partition stays stopped until Add.
	Err error
}

// Reader reads chosen partitions from chosen offsets, without a group. It never moves a position by itself. Poll is for
// one goroutine; the other methods are safe for concurrent use.
type Reader struct {
	cluster *Cluster
	client  *kgo.Client
	cancel  context.CancelFunc
	cfg     ReaderConfig

	mu Mutex
	// mu guards the fields below.
	// next holds the positions of the partitions that are read; adds holds the numbers that Add gave them.
	next map[place]int64
	adds map[place]uint64
	// locating holds the partitions in which a batch that is too large is being located, with their numbers.
	locating map[place]uint64
	// number counts the calls of Add.
	number uint64
	// added holds the partitions that the next Poll passes to the client, all at once, so that they share the first fetch.
	added map[string]map[int32]kgo.Offset
	// nudges are the times at which to restart fetches that were waiting at a broker when a partition was added.
	nudges []time.Time
	// paused holds the paused partitions. resumed holds the partitions that have returned nothing since Resume. At resumedUntil the
	// fetches are restarted for them.
	paused, resumed map[place]struct{}
	resumedUntil    time.Time
	// passed holds the results of the searches for aborted records, for the next Poll.
	passed []Fetch
	closed bool
	// wake ends a waiting Poll, so that it looks at added.
	wake context.CancelFunc

	// aborted is for readers of committed records. It has its own lock.
	aborted abortedWatch
	// ended is closed when Close has ended.
	ended chan struct{}
	// looks counts the goroutines that look for aborted records.
	looks sync.WaitGroup
}

// nudgeAfter bounds how long an added partition waits for a fetch that is held at the broker. In the meantime the
// client finds the leader of the partition, but does not report when it has found it. After the last nudge the bound is
// MaxWait.
var nudgeAfter = []time.Duration{5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}

// resumeWait is how long a resumed partition may return nothing before the fetches are restarted: longer than a fetch of a busy reader
// takes, but too short to be noticed. A restart costs a connection and the answers that are under way.
const resumeWait = 5 * time.Millisecond

// recordPool is shared by all readers.
var recordPool batch.Pool

type place struct {
	topic     string
	partition int32
}

// set sets the value of a partition.
func set[V any, M ~map[string]map[int32]V](m M, at place, v V) {
	if m[at.topic] == nil {
		m[at.topic] = make(map[int32]V)
	}
	m[at.topic][at.partition] = v
}

// NewReader opens a reader without partitions; Add gives it some. Close it.
func NewReader(c *Cluster, cfg ReaderConfig) (*Reader, error) {
	cfg.MaxRecords = cmp.Or(cfg.MaxRecords, defaultPollRecords)
	cfg.MaxWait = cmp.Or(cfg.MaxWait, defaultMaxWait)
	ctx, cancel := context.WithCancel(context.Background())
	r := &Reader{
		cluster: c, cancel: cancel, cfg: cfg, mu: NewMutex(),
		next: make(map[place]int64), adds: make(map[place]uint64), locating: make(map[place]uint64), added: make(map[string]map[int32]kgo.Offset),
		ended: make(chan struct{}), paused: make(map[place]struct{}), resumed: make(map[place]struct{}), aborted: abortedWatch{places: make(map[place]activity)},
	}
	opts := append(readerOpts(cfg), kgo.WithContext(ctx), kgo.WithDecompressor(c.unpack))
	if cfg.ReadCommitted {
		opts = append(opts, kgo.WithHooks(&batchHook{&r.aborted}))
	}
	var err error
	if r.client, err = c.open(opts...); err != nil {
		cancel()
		return nil, err
	}
	return r, nil
}

func readerOpts(cfg ReaderConfig) []kgo.Opt {
	opts := []kgo.Opt{
		// Positions are the caller's: an offset outside the log is an error, never a reset.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMinBytes(1),
		kgo.FetchMaxWait(cfg.MaxWait),
		kgo.FetchMaxBytes(fetchMaxBytes),
		kgo.FetchMaxPartitionBytes(fetchMaxPartition),
		kgo.WithPools(&recordPool),
		// Markers are always kept, because nothing else shows that the position is past them. Poll leaves them out.
		kgo.KeepControlRecords(),
		// This makes the client a reader of chosen partitions before it has any.
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}),
	}
	if cfg.ReadCommitted {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	return opts
}

// Add reads a partition from offset on; -2 means from its start. leaderEpoch is the epoch of the record before offset, or -1 if it
// is unknown. It lets the broker notice that the log has diverged (DataLossError). Adding a partition again moves it. Add takes
// effect at the next Poll. It returns the number that each Fetch of this reading carries.
func (r *Reader) Add(topic string, partition int32, offset int64, leaderEpoch int32) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(place{topic, partition})
	r.number++
	r.next[place{topic, partition}], r.adds[place{topic, partition}] = offset, r.number
	if r.cfg.ReadCommitted {
		r.aborted.again(place{topic, partition}) // see passAborted
	}
	o := kgo.NoResetOffset().At(offset).WithEpoch(leaderEpoch)
	if offset < 0 {
		o = kgo.NoResetOffset().AtStart()
	}
	set(r.added, place{topic, partition}, o)
	if r.wake != nil {
		r.wake()
	}
	return r.number
}

// Remove stops reading a partition. Poll returns no more records of it, not even ones that were fetched earlier.
func (r *Reader) Remove(topic string, partition int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(place{topic, partition})
}

// drop is called with mu held.
func (r *Reader) drop(at place) {
	delete(r.locating, at)
	r.passed = slices.DeleteFunc(r.passed, func(f Fetch) bool { return f.Topic == at.topic && f.Partition == at.partition })
	if _, ok := r.next[at]; !ok {
		return
	}
	delete(r.next, at)
	delete(r.adds, at)
	delete(r.resumed, at)
	if _, ok := r.paused[at]; ok { // otherwise a partition that is added again would stay paused
		delete(r.paused, at)
		r.client.ResumeFetchPartitions(map[string][]int32{at.topic: {at.partition}})
	}
	if _, ok := r.added[at.topic][at.partition]; ok {
		delete(r.added[at.topic], at.partition)
		return
	}
	r.client.RemoveConsumePartitions(map[string][]int32{at.topic: {at.partition}})
}

// Pause keeps the position of a partition, but stops fetching it and returns none of its records. Records that were fetched and not yet
// returned are fetched again after Resume.
func (r *Reader) Pause(topic string, partition int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := place{topic, partition}
	if _, ok := r.next[at]; !ok {
		return
	}
	r.paused[at] = struct{}{}
	delete(r.resumed, at)
	r.client.PauseFetchPartitions(map[string][]int32{topic: {partition}})
}

// Resume undoes Pause. A fetch that waits at the broker and does not include the partition would delay it. The fetches of a busy reader
// do not wait, so they are restarted only if the partition returns nothing for a moment.
func (r *Reader) Resume(topic string, partition int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := place{topic, partition}
	if _, ok := r.paused[at]; !ok {
		return
	}
	delete(r.paused, at)
	r.client.ResumeFetchPartitions(map[string][]int32{topic: {partition}})
	if len(r.resumed) == 0 {
		r.resumedUntil = time.Now().Add(resumeWait)
	}
	r.resumed[at] = struct{}{}
	if r.wake != nil {
		r.wake()
	}
}

// nudge makes the client restart its fetches. A fetch that waits at the broker because there is nothing to read would delay a partition
// that was added in the meantime. Setting the offset of a partition that does not exist restarts them and moves nothing. mu is held.
func (r *Reader) nudge() {
	clear(r.resumed)
	r.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{"": {-1: {Epoch: -1, Offset: 0}}})
}

// Poll waits for records, for an error of a partition, or for the end of ctx. It returns the error of ctx or ErrClosed; the error of a
// partition is in its Fetch.
func (r *Reader) Poll(ctx context.Context) ([]Fetch, error) {
	for {
		waiting, stop := r.beforePoll(ctx)
		polled := r.client.PollRecords(waiting, r.cfg.MaxRecords)
		stop()
		r.lookForAborted()
		if err := pollError(ctx, polled); err != nil {
			return nil, err
		}
		if out := slices.DeleteFunc(r.accept(polled), r.locateLater); len(out) > 0 {
			return out, nil
		}
	}
}

// beforePoll passes added partitions to the client and restarts waiting fetches. It returns the context of one wait, which ends for the
// next nudge, for the next Add, and to look for aborted records.
func (r *Reader) beforePoll(ctx context.Context) (context.Context, context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if len(r.added) > 0 {
		for topic, partitions := range r.added {
			if len(partitions) == 0 {
				delete(r.added, topic)
			}
		}
		r.client.AddConsumePartitions(r.added)
		r.added = make(map[string]map[int32]kgo.Offset)
		r.nudges = r.nudges[:0]
		for _, d := range nudgeAfter {
			r.nudges = append(r.nudges, now.Add(d))
		}
	}
	if len(r.nudges) > 0 && !now.Before(r.nudges[0]) {
		r.nudges = r.nudges[1:]
		r.nudge()
	}
	if len(r.resumed) > 0 && !now.Before(r.resumedUntil) {
		r.nudge()
	}
	waiting, wake := context.WithCancel(ctx)
	r.wake = wake
	if len(r.passed) > 0 {
		wake()
	}
	until := r.aborted.wait(wake)
	if len(r.nudges) > 0 && (until.IsZero() || r.nudges[0].Before(until)) {
		until = r.nudges[0]
	}
	if len(r.resumed) > 0 && (until.IsZero() || r.resumedUntil.Before(until)) {
		until = r.resumedUntil
	}
	if until.IsZero() {
		return waiting, wake
	}
	waiting, stop := context.WithDeadline(waiting, until)
	return waiting, func() { stop(); wake() }
}

// pollError finds the errors of the poll itself, which the client reports without a topic. The end of the waiting context alone is no
// error.
func pollError(ctx context.Context, polled kgo.Fetches) error {
	var found error
	polled.EachError(func(topic string, _ int32, err error) {
		switch {
		case topic != "":
		case errors.Is(err, kgo.ErrClientClosed):
			found = fmt.Errorf("poll: %w", ErrClosed)
		case ctx.Err() != nil && found == nil:
			found = fmt.Errorf("poll: %w", context.Cause(ctx))
		}
	})
	return found
}

func (r *Reader) accept(polled kgo.Fetches) []Fetch {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.passed
	r.passed = nil
	polled.EachPartition(func(p kgo.FetchTopicPartition) {
		at := place{p.Topic, p.Partition}
		next, ok := r.next[at]
		if _, moved := r.added[p.Topic][p.Partition]; !ok || moved {
			return // removed or moved since it was fetched
		}
		delete(r.resumed, at)
		f := r.fetched(p, next)
		if f.Err != nil {
			r.drop(at) // after a loss the client would continue where the log is intact, which would be a silent reset
		} else {
			r.next[at] = f.Next
			r.aborted.calm(at, &f)
		}
		if f.Err != nil || len(f.Records) > 0 || f.Next != next {
			out = append(out, f)
		}
	})
	return out
}

func (r *Reader) fetched(p kgo.FetchTopicPartition, next int64) Fetch {
	f := Fetch{Topic: p.Topic, Partition: p.Partition, Added: r.adds[place{p.Topic, p.Partition}], HighWatermark: p.HighWatermark, Next: next}
	if n := len(p.Records); n > 0 {
		if first := p.Records[0].Offset; first < next {
			f.Err = &DataLossError{Topic: p.Topic, Partition: p.Partition, ReadTo: next, LostFrom: first}
			return f
		}
		f.Next = p.Records[n-1].Offset + 1
		f.Records = batch.Recycle(p.Records)
		if !r.cfg.KeepControl {
			f.Records = slices.DeleteFunc(f.Records, func(r events.Record) bool { return r.Control })
		}
	}
	if p.Err != nil {
		f.Err = denied(r.cluster, typed(p.Err, p.Topic, p.Partition, f.Next), opRead, p.Topic, "")
	}
	return f
}

// locateLater starts to locate a batch that is too large, and returns false for any other error. Poll does not wait for it.
func (r *Reader) locateLater(f Fetch) bool {
	if !errors.Is(f.Err, batch.ErrUnpacksTooLarge) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return true
	}
	at := place{f.Topic, f.Partition}
	r.locating[at] = f.Added
	r.looks.Go(func() {
		ctx, cancel := context.WithTimeout(r.client.Context(), locateWait)
		defer cancel()
		f.Err = r.locate(ctx, f)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.locating[at] == f.Added { // otherwise it was removed or moved meanwhile
			delete(r.locating, at)
			r.passed = append(r.passed, f)
		}
		if r.wake != nil {
			r.wake()
		}
	})
	return true
}

// locateWait bounds the search for a batch that is too large. After it, reading is tried again.
const locateWait = 5 * time.Second

// locate finds the coordinates of the batch that is too large.
func (r *Reader) locate(ctx context.Context, f Fetch) error {
	at := batch.Position{Topic: f.Topic, Partition: f.Partition, Offset: f.Next}
	if _, err := r.cluster.fetch(ctx, fetchAt{Position: at, bytes: pointFetchBytes}); err != nil {
		return err
	}
	return f.Err // this time it could be unpacked, so reading may be tried again
}

// Close ends the reader. A waiting Poll returns ErrClosed.
func (r *Reader) Close() {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	r.mu.Unlock()
	if again { // two at once would race in the client
		<-r.ended
		return
	}
	closeClient(r.client, r.cancel)
	r.looks.Wait()
	close(r.ended)
}

// typed converts the errors that callers act upon to their types.
func typed(err error, topic string, partition int32, offset int64) error {
	if loss, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		return &DataLossError{Topic: topic, Partition: partition, ReadTo: loss.ConsumedTo, LostFrom: loss.ResetTo}
	}
	if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
		return &TooLargeError{
			Topic: topic, Partition: partition, Offset: large.Offset, Next: large.NextOffset, LeaderEpoch: large.Epoch,
		}
	}
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return &OutOfRangeError{Topic: topic, Partition: partition, Offset: offset}
	}
	return fromClient(err)
}
