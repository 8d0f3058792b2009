package node

import (
	"context"
	"fmt"

	"github.com/sagalog/sagalog/internal/kafka"
)

// inputs reads the submissions and reports of all partitions of this node with one reader. What agents report is produced
// for many partitions together: a reader for each would ask the broker for each, and a request costs more than what it
// carries.
//
// A reading that is not taken waits here, and holds up no other: it is never more than one delivery and one fetch ahead.
//
// Invariant: the reader reads a partition exactly while readings holds one of it that has not stopped by an error.
type inputs struct {
	cluster *kafka.Cluster
	// opened gives Run the reader.
	opened chan *kafka.Reader

	mu kafka.Turn
	// mu guards the fields below, and those of readings.
	// reader is opened for the first reading, and anew when it has failed.
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
	// aheadBytes is from when on a reading that is not taken is fetched no more. Below it that would cost more requests
	// than it saves memory; and one fetch comes on top.
	aheadBytes = 256 << 10
	// recordRoom is about what a record takes besides what it carries.
	recordRoom = 192
)

func newInputs(c *kafka.Cluster) *inputs {
	return &inputs{cluster: c, mu: kafka.NewTurn(), opened: make(chan *kafka.Reader, 1), readings: map[place]*reading{}}
}

// Run passes on what comes until ctx ends.
func (i *inputs) Run(ctx context.Context) error {
	defer i.close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-i.opened:
			i.lose(r, i.pass(ctx, r))
		}
	}
}

// pass passes on what one reader reads, until it fails.
func (i *inputs) pass(ctx context.Context, r *kafka.Reader) error {
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

// lose ends all readings with an error of the reader. Who begins again has another reader.
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

// close has nothing begin any more.
func (i *inputs) close() {
	i.mu.Lock()
	i.closed = true
	r := i.reader
	i.mu.Unlock()
	if r != nil {
		i.lose(r, kafka.ErrClosed)
	}
}

// begin reads a partition from an offset on. One that is read already is read by the new reading alone: the old one is
// of a generation whose context has ended.
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
		i.opened <- r // never waits: there was none
	}
	r := &reading{inputs: i, at: at, came: make(chan struct{}, 1)}
	i.readings[at] = r
	r.add(from)
	return r, nil
}

// reading is the reading of one partition. Its fields but came are guarded by the lock of inputs.
type reading struct {
	inputs *inputs
	at     place
	// number is what the reader's fetches bear that are for this reading.
	number uint64
	// came holds something when there is something to take.
	came chan struct{}
	// waiting is what came and was not taken, if waits, of about so many bytes.
	waiting kafka.Fetch
	waits   bool
	bytes   int
	// paused says that no more is fetched until waiting was taken.
	paused bool
	// lost is why the reader failed.
	lost error
}

// add is called with the lock held.
func (r *reading) add(from int64) {
	r.paused = false
	r.number = r.inputs.reader.Add(r.at.topic, r.at.partition, from, -1)
}

// put is called with the lock held. What is taken at once is never paused, because that costs requests.
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
			return nil, err // both may have come
		}
		if f, err := r.take(); f != nil || err != nil {
			return f, err
		}
	}
}

// take returns what came, nil if that was taken already.
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

// current tells whether no other reading has taken this one's place. It is called with the lock held.
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
