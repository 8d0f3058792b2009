package node_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

const (
	submissions = supervisor.Topic(events.Submissions)
	reports     = supervisor.Topic(events.Reports)
)

// setupInputs builds a world whose partitions are read without a node.
func setupInputs(t *testing.T, partitions int32) (*world, node.Inputs) {
	w := setup(t, partitions)
	kafkatest.Create(t, w.cluster, w.topics.Base(partitions)...)
	in := node.NewInputs(w.cluster)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.ErrorIs(t, in.Of(w.topics, 0).Read(context.Background(), reports, 0, nil), kafka.ErrClosed, "no read starts after the end")
	})
	return w, in
}

// reads is a reading of one partition and its records.
type reads struct {
	cancel context.CancelFunc
	given  chan events.Record
	ended  chan error
	// next is the most recent position that was delivered.
	next atomic.Int64
}

// read reads a partition. Each delivery blocks until room is closed.
func readInput(w *world, l supervisor.Log, in supervisor.Topic, from int64, room <-chan struct{}) *reads {
	ctx, cancel := context.WithCancel(w.t.Context())
	r := &reads{cancel: cancel, given: make(chan events.Record, 100_000), ended: make(chan error, 1)}
	go func() {
		r.ended <- l.Read(ctx, in, from, func(records []events.Record, next int64) error {
			if ctx.Err() != nil {
				panic("a delivery after the context has ended")
			}
			for i := range records {
				r.given <- records[i]
			}
			r.next.Store(next)
			select {
			case <-room:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
	}()
	return r
}

// end ends the read, and returns when Read has returned.
func (r *reads) end(t *testing.T) {
	t.Helper()
	r.cancel()
	require.ErrorIs(t, <-r.ended, context.Canceled)
}

// take returns n records and checks that their offsets are in order.
func (r *reads) take(t *testing.T, from int64, n int) {
	t.Helper()
	for i := range n {
		select {
		case got := <-r.given:
			require.Equal(t, from+int64(i), got.Offset)
		case <-time.After(patience):
			require.FailNow(t, "no more records are delivered", "%d of %d", i, n)
		}
	}
}

func open() <-chan struct{} {
	room := make(chan struct{})
	close(room)
	return room
}

// A full owner holds back one input of its partition, and what it holds back does not grow in memory. When the owner
// has room again, it gets everything.
func TestABlockedReadingDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const large, each = 60, 100 << 10
		w, in := setupInputs(t, 2)
		full := make(chan struct{})
		blocked := readInput(w, in.Of(w.topics, 0), reports, 0, full)
		others := []*reads{
			readInput(w, in.Of(w.topics, 0), submissions, 0, open()),
			readInput(w, in.Of(w.topics, 1), reports, 0, open()),
			readInput(w, in.Of(w.topics, 1), submissions, 0, open()),
		}
		r := events.Record{Value: bytes.Repeat([]byte("x"), each)}
		w.produce(w.topics.Reports(), 0, r)
		blocked.take(t, 0, 1)
		most := 0
		for i := range large {
			w.produce(w.topics.Reports(), 0, r)
			begun := time.Now()
			w.produce(w.topics.Submissions(), 0, events.Record{Key: []byte("a")})
			w.produce(w.topics.Reports(), 1, events.Record{Key: []byte("a")})
			w.produce(w.topics.Submissions(), 1, events.Record{Key: []byte("a")})
			for _, o := range others {
				o.take(t, int64(i), 1)
			}
			if i > 0 { // the first reads wait until the client knows the leader
				require.Less(t, time.Since(begun), 50*time.Millisecond, "record %d", i)
			}
			most = max(most, in.Waiting(w.topics.Reports(), 0))
		}
		require.Less(t, most, 1500<<10, "memory does not grow")
		require.Empty(t, blocked.given, "nothing more is delivered before the first delivery is accepted")
		begun := time.Now()
		close(full)
		blocked.take(t, 1, large)
		require.Less(t, time.Since(begun), 500*time.Millisecond, "reading continues at once, even while the broker holds a fetch for the other partitions")
		synctest.Wait()
		require.EqualValues(t, large+1, blocked.next.Load())
		for _, o := range append(others, blocked) {
			o.end(t)
			require.Empty(t, o.given)
		}
	})
}

// A read ends while its partition is held back. The next one reads the partition from any offset, without delay.
func TestAReadingAfterABlockedOneGetsItsRecords(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, in := setupInputs(t, 1)
		old := readInput(w, in.Of(w.topics, 0), reports, 0, nil)
		for range 40 {
			w.produce(w.topics.Reports(), 0, events.Record{Value: bytes.Repeat([]byte("x"), 100<<10)})
			synctest.Wait()
		}
		old.take(t, 0, 1)
		old.end(t)
		require.Zero(t, in.Waiting(w.topics.Reports(), 0), "the records that waited are discarded")
		begun := time.Now()
		again := readInput(w, in.Of(w.topics, 0), reports, 7, open())
		again.take(t, 7, 33)
		require.Less(t, time.Since(begun), time.Second)
		again.end(t)
	})
}

// Several reads of a partition start one after the other from any offset, some before the previous one has ended. Each
// delivers the records from its offset on, and no others. The other partition is read all the time.
func TestASecondReadingGetsNoRecordOfTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, in := setupInputs(t, 2)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 1))
		ctx, stop := context.WithCancel(t.Context())
		written, ended := new(atomic.Int64), make(chan struct{})
		both := func() {
			w.produce(w.topics.Reports(), 0, events.Record{Key: []byte("a")})
			w.produce(w.topics.Reports(), 1, events.Record{Key: []byte("a")})
		}
		both()
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				both()
				written.Add(1)
				<-time.After(time.Millisecond)
			}
		}()
		steady := readInput(w, in.Of(w.topics, 1), reports, 0, open())
		for range rounds(t, 100, 1000) {
			from := random.Int64N(written.Load() + 1)
			r := readInput(w, in.Of(w.topics, 0), reports, from, open())
			r.take(t, from, 1+random.IntN(3))
			<-time.After(time.Duration(random.IntN(int(20 * time.Millisecond))))
			r.cancel()
			if random.IntN(2) == 0 {
				require.ErrorIs(t, <-r.ended, context.Canceled)
			}
		}
		stop()
		<-ended
		steady.take(t, 0, int(written.Load())+1)
		steady.end(t)
	})
}

// Undisturbed reads deliver both inputs of many partitions in order.
func TestInputsOfManyPartitions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const partitions = 8
		n := 300
		if testing.Short() {
			n = 50
		}
		w, in := setupInputs(t, partitions)
		var list []*reads
		for p := range int32(partitions) {
			list = append(list, readInput(w, in.Of(w.topics, p), submissions, 0, open()), readInput(w, in.Of(w.topics, p), reports, 0, open()))
		}
		for i := range n {
			for p := range int32(partitions) {
				r := events.Record{Key: fmt.Append(nil, i)}
				w.produce(w.topics.Submissions(), p, r)
				w.produce(w.topics.Reports(), p, r)
			}
		}
		for _, r := range list {
			r.take(t, 0, n)
			r.end(t)
		}
	})
}

// A reader that fails ends all reads with an error. The next read gets a new reader.
func TestInputsGetANewReaderAfterAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, in := setupInputs(t, 2)
		for range 3 {
			w.produce(w.topics.Reports(), 0, events.Record{Key: []byte("a")})
			w.produce(w.topics.Reports(), 1, events.Record{Key: []byte("a")})
			one := readInput(w, in.Of(w.topics, 0), reports, 0, open())
			other := readInput(w, in.Of(w.topics, 1), reports, 0, open())
			one.take(t, 0, 1)
			other.take(t, 0, 1)
			in.Fail()
			require.ErrorIs(t, <-one.ended, kafka.ErrClosed)
			require.ErrorIs(t, <-other.ended, kafka.ErrClosed)
		}
	})
}

// An offset outside the log ends only the read of its partition.
func TestAnOffsetOutOfRangeEndsOnlyItsReading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, in := setupInputs(t, 2)
		other := readInput(w, in.Of(w.topics, 1), reports, 0, open())
		for range 3 {
			lost := readInput(w, in.Of(w.topics, 0), reports, 7, open())
			require.ErrorIs(t, <-lost.ended, supervisor.ErrPosition)
		}
		w.produce(w.topics.Reports(), 1, events.Record{Key: []byte("a")})
		other.take(t, 0, 1)
		other.end(t)
	})
}
