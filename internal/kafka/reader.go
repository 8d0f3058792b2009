package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// defaultMaxDecompress is twice what a dead letter may hold: more than any record of ours, and little enough that
	// a hostile batch cannot fill the memory.
	defaultMaxDecompress = 16 << 20
	// defaultMaxWait is long, because data wakes a waiting fetch at once, and an idle node then costs nothing.
	defaultMaxWait = 5 * time.Second
	// defaultPollRecords bounds one Poll, so that one busy partition does not hold up the loop of its reader.
	defaultPollRecords = 4_096
	fetchMaxBytes      = 32 << 20
	// fetchMaxPartition is two thousand facts at once: more would only be more memory, and the embedded broker copies
	// what it sends of one partition about as often as it has batches.
	fetchMaxPartition = 1 << 20
)

// ReaderConfig says how a Reader reads.
type ReaderConfig struct {
	// ReadCommitted reads up to the last stable offset and leaves out what was aborted.
	ReadCommitted bool
	// KeepControl also returns the markers of transactions, as records with Control set.
	KeepControl bool
	// MaxDecompress bounds what a batch may unpack to; default 16 MiB.
	MaxDecompress int
	// MaxRecords bounds one Poll; default 4,096.
	MaxRecords int
	// MaxWait is how long a broker holds a fetch while there is nothing; default 5 s.
	MaxWait time.Duration
}

// Fetch is what one Poll brought of one partition.
type Fetch struct {
	Topic     string
	Partition int32
	// Added is what Add returned for this reading of the partition. What was polled before the partition was moved is
	// told apart by it.
	Added uint64
	// Records are in the order of the log. They may be empty although Next has moved: markers and aborted records.
	Records []events.Record
	// Next is the offset to be read next: behind the last record, also where that is a marker left out of Records.
	Next int64
	// HighWatermark is the end of the log as this fetch saw it, with what open transactions have written.
	HighWatermark int64
	// Err is why reading of this partition has stopped: *OutOfRangeError, *DataLossError, *TooLargeError, or an error
	// of the broker. It stays stopped until Add.
	Err error
}

// Reader reads chosen partitions from chosen offsets, without a group. It never moves a position by itself. Poll is for
// one goroutine; the other methods are safe for concurrent use.
type Reader struct {
	cluster *Cluster
	client  *kgo.Client
	cancel  context.CancelFunc
	cfg     ReaderConfig
	unpack  unpacker

	mu Turn
	// mu guards the fields below.
	// next holds the partitions that are read, and their positions; adds the numbers that Add gave them.
	next map[place]int64
	adds map[place]uint64
	// locating holds the partitions of which a batch that is too large is searched for, with their numbers.
	locating map[place]uint64
	// number counts the calls of Add.
	number uint64
	// added is what Poll will give the client: all at once, so that they share the first fetch.
	added map[string]map[int32]kgo.Offset
	// nudges is when to restart the fetches that were waiting at a broker when a partition was added.
	nudges []time.Time
	// paused are the partitions that Pause holds. resumed are those of which nothing came since Resume, and resumedUntil
	// is when they are waited for no longer.
	paused, resumed map[place]struct{}
	resumedUntil    time.Time
	// passed is what was found of aborted records, for the next Poll.
	passed []Fetch
	closed bool
	// wake ends a Poll that waits, so that it looks at added.
	wake context.CancelFunc

	// stirred is of a reader of committed records. It has a lock of its own.
	stirred stir
	// ended is closed when Close has ended.
	ended chan struct{}
	// looks are the questions for aborted records that are under way.
	looks sync.WaitGroup
}

// nudgeAfter bounds how long an added partition waits behind a fetch that is held at the broker: the client learns who
// leads the partition in the meantime, and does not tell when. After the last nudge it is MaxWait.
var nudgeAfter = []time.Duration{5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}

// resumeWait is how long a resumed partition is waited for: longer than a fetch of a busy reader takes, and short enough
// that nobody notices. Restarting the fetches costs a connection, and what of other partitions is on its way.
const resumeWait = 5 * time.Millisecond

type place struct {
	topic     string
	partition int32
}

// NewReader opens a reader of nothing; Add gives it partitions. Close it.
func NewReader(c *Cluster, cfg ReaderConfig) (*Reader, error) {
	if cfg.MaxDecompress <= 0 {
		cfg.MaxDecompress = defaultMaxDecompress
	}
	if cfg.MaxRecords <= 0 {
		cfg.MaxRecords = defaultPollRecords
	}
	if cfg.MaxWait <= 0 {
		cfg.MaxWait = defaultMaxWait
	}
	unpack := c.unpack
	if cfg.MaxDecompress != defaultMaxDecompress {
		var err error
		if unpack, err = newUnpacker(c, cfg.MaxDecompress); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Reader{
		cluster: c, cancel: cancel, cfg: cfg, unpack: unpack, mu: NewTurn(),
		next: make(map[place]int64), adds: make(map[place]uint64), locating: make(map[place]uint64), added: make(map[string]map[int32]kgo.Offset),
		ended: make(chan struct{}), paused: make(map[place]struct{}), resumed: make(map[place]struct{}), stirred: stir{places: make(map[place]stirring)},
	}
	opts := append(readerOpts(cfg), kgo.WithContext(ctx), kgo.WithDecompressor(unpack))
	if cfg.ReadCommitted {
		opts = append(opts, kgo.WithHooks(&batchHook{&r.stirred}))
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
		// Positions are ours: an offset outside the log is an error, never a reset.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMinBytes(1),
		kgo.FetchMaxWait(cfg.MaxWait),
		kgo.FetchMaxBytes(fetchMaxBytes),
		kgo.FetchMaxPartitionBytes(fetchMaxPartition),
		kgo.WithPools(&readPool),
		// Markers are always kept, because only they tell that the position is behind them; Poll leaves them out.
		kgo.KeepControlRecords(),
		// This makes the client a reader of chosen partitions although it has none yet.
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}),
	}
	if cfg.ReadCommitted {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	return opts
}

// Add reads a partition from offset on; -2 means from its start. A leader epoch other than -1 is that of the record
// before offset, and lets the broker tell that the log has diverged (DataLossError). Adding a partition that is read
// already moves it. It takes effect in Poll. It returns the number that each Fetch of this reading bears.
func (r *Reader) Add(topic string, partition int32, offset int64, leaderEpoch int32) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(place{topic, partition})
	r.number++
	r.next[place{topic, partition}], r.adds[place{topic, partition}] = offset, r.number
	if r.cfg.ReadCommitted {
		r.stirred.again(place{topic, partition}) // see passAborted
	}
	o := kgo.NoResetOffset().At(offset).WithEpoch(leaderEpoch)
	if offset < 0 {
		o = kgo.NoResetOffset().AtStart()
	}
	if r.added[topic] == nil {
		r.added[topic] = make(map[int32]kgo.Offset)
	}
	r.added[topic][partition] = o
	if r.wake != nil {
		r.wake()
	}
	return r.number
}

// Remove stops reading a partition. Poll returns nothing of it that was fetched before.
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
	if _, ok := r.paused[at]; ok { // or whoever adds it again would wait for ever
		delete(r.paused, at)
		r.client.ResumeFetchPartitions(map[string][]int32{at.topic: {at.partition}})
	}
	if _, ok := r.added[at.topic][at.partition]; ok {
		delete(r.added[at.topic], at.partition)
		return
	}
	r.client.RemoveConsumePartitions(map[string][]int32{at.topic: {at.partition}})
}

// Pause keeps the position of a partition, fetches no more of it and returns nothing of it. What was fetched and not
// returned is fetched again after Resume.
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

// Resume undoes Pause. A fetch that is held at the broker without the partition would hold it up; but the fetches of a
// busy reader are not held, so they are restarted only if nothing came of it for a moment.
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

// nudge lets the client send its fetches anew. A fetch that is held at the broker because there is nothing to read
// would hold up a partition that was added meanwhile. Setting the offset of a partition that does not exist moves
// nothing, and restarts them. It is called with mu held.
func (r *Reader) nudge() {
	clear(r.resumed)
	r.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{"": {-1: {Epoch: -1, Offset: 0}}})
}

// Poll waits for records, for an error of a partition, or for the end of ctx. Its error is ctx's or ErrClosed; errors of
// a partition stand in its Fetch.
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

// beforePoll applies what was added and nudges what waits. It returns the context of one wait, which ends early for
// the next nudge, for the next Add, and to look for aborted records.
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
	until := r.stirred.wait(wake)
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

// pollError finds the errors that the client injects under no topic: those of the poll itself. An end of the waiting
// context alone is none.
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
			r.drop(at) // after a loss the client goes on where the log is whole, and that would be a silent reset
		} else {
			r.next[at] = f.Next
			r.stirred.calm(at, &f)
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
		f.Records = takeKgo(p.Records)
		if !r.cfg.KeepControl {
			f.Records = withoutControl(f.Records)
		}
	}
	if p.Err != nil {
		f.Err = typed(p.Err, p.Topic, p.Partition, f.Next)
	}
	return f
}

// locateLater has a batch that is too large located, and returns false for everything else. Poll does not wait for it, as it
// does not for a look for aborted records.
func (r *Reader) locateLater(f Fetch) bool {
	if !errors.Is(f.Err, errUnpacksTooLarge) {
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
		if r.locating[at] == f.Added { // else it was removed or moved meanwhile
			delete(r.locating, at)
			r.passed = append(r.passed, f)
		}
		if r.wake != nil {
			r.wake()
		}
	})
	return true
}

// locateWait bounds the search for a batch that is too large; then the reading is tried again.
const locateWait = 5 * time.Second

// locate finds the coordinates of the batch that is too large.
func (r *Reader) locate(ctx context.Context, f Fetch) error {
	at := fetchAt{topic: f.Topic, partition: f.Partition, offset: f.Next, bytes: pointFetchBytes, unpack: r.unpack}
	if _, err := r.cluster.fetch(ctx, at); err != nil {
		return err
	}
	return f.Err // it unpacked this time; reading may be tried again
}

// Close ends the reader; a Poll that waits returns ErrClosed.
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

func withoutControl(in []events.Record) []events.Record {
	out := in[:0]
	for i := range in {
		if !in[i].Control {
			out = append(out, in[i])
		}
	}
	return out
}

// typed gives the errors of a partition that a caller acts upon a type.
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
