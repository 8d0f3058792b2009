package kafka_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

const (
	// movePartitions gives each of three brokers some partitions to lead.
	movePartitions = 6
	// moveTick is the interval of each writer, short enough that some records are in flight at every moment of a move.
	moveTick = 20 * time.Millisecond
	// moveBatches bounds the unanswered batches of an owner. An outage of a few seconds fills it.
	moveBatches = 100
)

// leadersMove kills and restarts each broker under load, and then stops and restarts each one cleanly. Each partition
// continues while a broker is down, acknowledged records are at their offsets, no epoch has a gap, the reader never
// stops, skips or repeats, and the group misses nothing.
func leadersMove(t *testing.T, k *kafkatest.Real) {
	w := newWorld(k.Connect(t, "", ""))
	specs := []kafka.TopicSpec{
		{Name: w.Topics.Events(), Partitions: movePartitions, MaxMessageBytes: kafka.MaxMessageBytes},
		w.Topics.WorkSpec("package", movePartitions),
	}
	require.NoError(t, kafka.EnsureTopics(kafkatest.Within(t), w.Cluster, specs...))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writing sync.WaitGroup
	owners := make([]*reigns, movePartitions)
	for p := range owners {
		owners[p] = &reigns{t: t, w: w, partition: int32(p), acknowledged: make(map[int64]string)}
		writing.Go(func() { owners[p].run(ctx) })
	}
	f := &follower{w: w, next: make(map[int32]int64)}
	f.start(t)
	g := newErrands(t, w, specs[1].Name)
	writing.Go(func() { g.write(ctx) })

	goesOn := func() {
		for _, o := range owners {
			before := o.count()
			require.Eventually(t, func() bool { return o.count() > before+10 }, kafkatest.StepWait, moveTick, "partition %d stands still", o.partition)
		}
	}
	goesOn()
	for _, end := range []func(int){k.Kill, k.Stop} {
		for n := 1; n <= 3; n++ {
			end(n)
			goesOn()
			k.Start(n)
			k.AwaitInSync()
			goesOn()
		}
	}
	stop()
	writing.Wait()
	for _, o := range owners {
		f.awaitEnd(t, o.partition, o.check(t))
		t.Logf("partition %d: %d records acknowledged, %d epochs, longest wait for an answer %.1f s",
			o.partition, len(o.acknowledged), o.epoch+1, o.longest.Seconds())
	}
	f.end(t)
	g.end(t)
}

// reigns records what the owners of a partition wrote in each epoch.
type reigns struct {
	t         *testing.T
	w         world
	partition int32

	// mu guards the fields below.
	mu           sync.Mutex
	epoch        int
	acknowledged map[int64]string
	longest      time.Duration
}

func (o *reigns) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.acknowledged)
}

// run claims again whenever an epoch ends with an error, as an owner does.
func (o *reigns) run(ctx context.Context) {
	for {
		err := o.reign(ctx)
		if err == nil {
			return
		}
		o.t.Logf("partition %d: epoch %d ended: %v", o.partition, o.epoch, err)
		o.mu.Lock()
		o.epoch++
		o.mu.Unlock()
	}
}

// reign writes until ctx ends, and then waits for the answers.
func (o *reigns) reign(ctx context.Context) error {
	p, err := kafka.NewOwnerProducer(o.w.Cluster, o.w.Topics.Events(), o.partition)
	if err != nil {
		return err
	}
	defer p.Close()
	answered := make(chan error, moveBatches)
	tick := time.NewTicker(moveTick)
	defer tick.Stop()
	expired := time.NewTimer(10 * time.Minute)
	defer expired.Stop()
	next, waiting, over := 0, 0, ctx.Done()
	for {
		select {
		case <-over:
			over = nil
			tick.Stop()
			expired.Reset(kafkatest.StepWait)
		case <-tick.C:
			if waiting < moveBatches {
				o.append(p, next, answered)
				next += 3
				waiting++
			}
		case err := <-answered:
			if err != nil {
				return err
			}
			waiting--
		case <-expired.C:
			return fmt.Errorf("%d batches got no answer", waiting)
		}
		if over == nil && waiting == 0 {
			return nil
		}
	}
}

func (o *reigns) append(p *kafka.OwnerProducer, next int, answered chan<- error) {
	epoch, sent := o.epoch, time.Now()
	batch := make([]string, 3)
	for i := range batch {
		batch[i] = fmt.Sprintf("%d/%d", epoch, next+i)
	}
	p.Append(records(batch...), func(offsets []int64, err error) {
		o.mu.Lock()
		for i, at := range offsets {
			if i > 0 && at != offsets[i-1]+1 && err == nil {
				err = fmt.Errorf("offsets are not contiguous: %v", offsets)
			}
			o.acknowledged[at] = batch[i]
		}
		o.longest = max(o.longest, time.Since(sent))
		o.mu.Unlock()
		answered <- err
	})
}

// check reads the log and returns its end.
func (o *reigns) check(t *testing.T) int64 {
	t.Helper()
	found := make(map[int64]string)
	last := make(map[int]int)
	var end int64
	require.NoError(t, o.w.ReadRange(kafkatest.Within(t), o.w.Topics.Events(), o.partition, 0, -1, func(r events.Record) error {
		var epoch, seq int
		_, err := fmt.Sscanf(string(r.Value), "%d/%d", &epoch, &seq)
		require.NoError(t, err)
		require.Equal(t, last[epoch], seq, "a gap or a duplicate in epoch %d at offset %d", epoch, r.Offset)
		last[epoch] = seq + 1
		found[r.Offset] = string(r.Value)
		end = r.Offset + 1
		return nil
	}))
	for at, value := range o.acknowledged {
		require.Equal(t, value, found[at], "offset %d was acknowledged", at)
	}
	return end
}

// follower reads all partitions of the events topic.
type follower struct {
	w    world
	stop context.CancelFunc
	done sync.WaitGroup

	// mu guards the fields below.
	mu    sync.Mutex
	next  map[int32]int64
	fault error
}

func (f *follower) start(t *testing.T) {
	r := f.w.Reader(t, kafka.ReaderConfig{ReadCommitted: true, KeepControl: true})
	for p := range int32(movePartitions) {
		r.Add(f.w.Topics.Events(), p, 0, -1)
	}
	ctx, stop := context.WithCancel(t.Context())
	f.stop = stop
	f.done.Go(func() {
		for {
			fetches, err := r.Poll(ctx)
			if err != nil {
				return
			}
			f.take(fetches)
		}
	})
}

func (f *follower) take(fetches []kafka.Fetch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fetch := range fetches {
		if fetch.Err != nil && f.fault == nil {
			f.fault = fetch.Err
		}
		for _, r := range fetch.Records {
			if r.Offset != f.next[r.Partition] && f.fault == nil {
				f.fault = fmt.Errorf("partition %d: offset %d came after %d", r.Partition, r.Offset, f.next[r.Partition]-1)
			}
			f.next[r.Partition] = r.Offset + 1
		}
	}
}

func (f *follower) awaitEnd(t *testing.T, partition int32, end int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.fault != nil || f.next[partition] == end
	}, kafkatest.StepWait, moveTick, "the reader does not reach the end of partition %d", partition)
}

func (f *follower) end(t *testing.T) {
	t.Helper()
	f.stop()
	f.done.Wait()
	require.NoError(t, f.fault)
}
