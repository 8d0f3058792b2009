package node

import (
	"context"
	"fmt"

	"github.com/sagalog/sagalog/internal/kafka"
)

// inputs reads the input topics of all partitions of this node with one reader. Agents report for many partitions at
// once: a reader for each partition would ask the broker for each, and a request costs more than its records.
//
// Fetches that a reading has not taken wait here without delaying other readings; at most one delivery and one fetch wait.
//
// Invariant: the reader reads a partition exactly while readings holds one for it that has not stopped by an error.
type inputs struct {
	cluster *kafka.Cluster
	// opened gives Run the reader.
	opened chan *kafka.Reader

	mu kafka.Mutex
	// mu guards the fields below, and those of readings.
	// reader is opened for the first reading, and reopened after it has failed.
	reader   *kafka.Reader
	readings map[place]*reading
	closed   bool
}

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

const (
	// aheadBytes is the amount of waiting records above which a reading pauses. A lower limit would save little memory and cost
	// many requests. One more fetch may come on top.
	aheadBytes = 256 << 10
	// recordRoom is approximately the memory that a record takes besides its bytes.
	recordRoom = 192
)

func newInputs(c *kafka.Cluster) *inputs {
	return &inputs{cluster: c, mu: kafka.NewMutex(), opened: make(chan *kafka.Reader, 1), readings: map[place]*reading{}}
}

// Run distributes fetches until ctx ends.
func (i *inputs) Run(ctx context.Context) error {
	defer i.close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-i.opened:
			i.lose(r, i.distribute(ctx, r))
		}
	}
}

// distribute distributes the fetches of one reader until it fails.
func (i *inputs) distribute(ctx context.Context, r *kafka.Reader) error {
	for {
		fetches, err := r.Poll(ctx)
		if err != nil {
			return err
		}
		i.mu.Lock()
		for _, f := range fetches {
			if to := i.readings[place{f.Topic, f.Partition}]; to != nil && to.number == f.Added {
				to.put(f)
			}
		}
		i.mu.Unlock()
	}
}

// lose ends all readings with an error of the reader. The next reading opens another one.
func (i *inputs) lose(r *kafka.Reader, err error) {
	i.mu.Lock()
	i.reader = nil
	for _, to := range i.readings {
		to.lost = fmt.Errorf("read the inputs: %w", err)
		to.signal()
	}
	clear(i.readings)
	i.mu.Unlock()
	r.Close()
}

// close ends all readings, and refuses new ones.
func (i *inputs) close() {
	i.mu.Lock()
	i.closed = true
	r := i.reader
	i.mu.Unlock()
	if r != nil {
		i.lose(r, kafka.ErrClosed)
	}
}

// begin reads a partition from an offset on. A new reading replaces an older one of the partition, which belongs to a
// generation whose context has ended.
func (i *inputs) begin(at place, from int64) (*reading, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return nil, fmt.Errorf("read the inputs: %w", kafka.ErrClosed)
	}
	if i.reader == nil {
		r, err := kafka.NewReader(i.cluster, kafka.ReaderConfig{ReadCommitted: true, KeepControl: true})
		if err != nil {
			return nil, err
		}
		i.reader = r
		i.opened <- r // never blocks: there was no reader
	}
	r := &reading{inputs: i, at: at, came: make(chan struct{}, 1)}
	i.readings[at] = r
	r.add(from)
	return r, nil
}

// reading reads one partition. The lock of inputs guards its fields except came.
type reading struct {
	inputs *inputs
	at     place
	// number identifies the reader's fetches for this reading.
	number uint64
	// came holds a value while there is something to take.
	came chan struct{}
	// If waits is set, waiting has been fetched but not taken yet. bytes is its approximate size.
	waiting kafka.Fetch
	waits   bool
	bytes   int
	// paused says that nothing more is fetched until waiting is taken.
	paused bool
	// lost is the error of the reader.
	lost error
}

// add is called with the lock held.
func (r *reading) add(from int64) {
	r.paused = false
	r.number = r.inputs.reader.Add(r.at.topic, r.at.partition, from, -1)
}

// put is called with the lock held. A reading that takes each fetch at once is never paused, because pausing costs
// requests.
func (r *reading) put(f kafka.Fetch) {
	for i := range f.Records {
		r.bytes += f.Records[i].Size() + recordRoom
	}
	if !r.waits {
		r.waiting, r.waits = f, true
		r.signal()
		return
	}
	r.waiting.Records = append(r.waiting.Records, f.Records...)
	r.waiting.Next, r.waiting.HighWatermark, r.waiting.Err = f.Next, f.HighWatermark, f.Err
	if r.bytes >= aheadBytes && f.Err == nil && !r.paused {
		r.paused = true
		r.inputs.reader.Pause(r.at.topic, r.at.partition)
	}
}

func (r *reading) signal() {
	select {
	case r.came <- struct{}{}:
	default:
	}
}

// next implements source.
func (r *reading) next(ctx context.Context) ([]kafka.Fetch, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.came:
		}
		if err := ctx.Err(); err != nil {
			return nil, err // select chooses at random if both are ready
		}
		if f, err := r.take(); f != nil || err != nil {
			return f, err
		}
	}
}

// take returns the waiting fetches, nil if they were taken already.
func (r *reading) take() ([]kafka.Fetch, error) {
	r.inputs.mu.Lock()
	defer r.inputs.mu.Unlock()
	if r.lost != nil || !r.waits {
		return nil, r.lost
	}
	f := []kafka.Fetch{r.waiting}
	r.waiting, r.waits, r.bytes = kafka.Fetch{}, false, 0
	if r.paused && r.current() {
		r.paused = false
		r.inputs.reader.Resume(r.at.topic, r.at.partition)
	}
	return f, nil
}

// current says whether no other reading has replaced this one. It is called with the lock held.
func (r *reading) current() bool { return r.inputs.readings[r.at] == r }

// readFrom implements source.
func (r *reading) readFrom(offset int64) {
	r.inputs.mu.Lock()
	defer r.inputs.mu.Unlock()
	if r.current() {
		r.add(offset)
	}
}

// end implements source.
func (r *reading) end() {
	r.inputs.mu.Lock()
	defer r.inputs.mu.Unlock()
	if r.current() {
		delete(r.inputs.readings, r.at)
		r.inputs.reader.Remove(r.at.topic, r.at.partition)
	}
}
