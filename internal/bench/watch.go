package bench

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// counts holds the numbers of facts that the watcher has read so far.
type counts struct {
	facts, bytes int64
	// itemBytes are the bytes of facts about one item.
	itemBytes                            int64
	submitted, ended, badly              int64
	started, outcomes, timeouts, failure int64
	// completed counts what was done, items included.
	completed int64
}

// watcher reads events once, while they are written. From their headers alone it finds when tasks end, and counts the kinds of facts. It
// trusts every record; the audit finds void and double ones.
type watcher struct {
	names names
	due   *table[int64]
	// base is the instant that due times count from.
	base time.Time
	// hit says which tasks took the tail latency.
	hit func(task int) bool
	// from and to bound the window. Latencies are measured for tasks that were due in it.
	from, to atomic.Int64
	// before are the ends of events before the run. Records before them belong to earlier runs.
	before map[int32]int64
	// each, if not nil, is called with every record of the run.
	each func(r *events.Record, now int64)
	// ended is called with the number of this run's tasks that ended in one poll.
	ended func(n int)

	latency, untailed histogram

	mu    sync.Mutex
	total counts
}

// never is later than every due time.
const never = int64(1) << 62

func newWatcher(n names, base time.Time, due *table[int64]) *watcher {
	w := &watcher{names: n, base: base, due: due, ended: func(int) {}, hit: func(int) bool { return false }}
	w.from.Store(never)
	w.to.Store(never)
	return w
}

func (w *watcher) counts() counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// run reads the partitions of a topic from their beginning until ctx ends.
func (w *watcher) run(ctx context.Context, c *kafka.Cluster, topic string, partitions int32) error {
	var sum counts
	// Records that arrive together count as simultaneous: the clock is read once for them.
	now := int64(-1)
	batch := func() {
		w.mu.Lock()
		w.total.add(&sum)
		w.mu.Unlock()
		if sum.ended > 0 {
			w.ended(int(sum.ended))
		}
		sum, now = counts{}, -1
	}
	return kafka.Scan(ctx, c, kafka.ScanConfig{Topic: topic, Partitions: partitions, Batch: batch}, func(r *events.Record) error {
		if now < 0 {
			now = int64(time.Since(w.base))
		}
		w.see(r, now, &sum)
		return nil
	})
}

func (c *counts) add(d *counts) {
	c.facts += d.facts
	c.bytes += d.bytes
	c.itemBytes += d.itemBytes
	c.submitted += d.submitted
	c.ended += d.ended
	c.badly += d.badly
	c.started += d.started
	c.outcomes += d.outcomes
	c.completed += d.completed
	c.timeouts += d.timeouts
	c.failure += d.failure
}

// ofItem says whether the fact with this value is about an item: its first member is the path of one.
func ofItem(value []byte) bool {
	path, ok := bytes.CutPrefix(value, []byte(`{"step":"`))
	end := bytes.IndexByte(path, '"')
	return ok && end > 0 && path[end-1] == ']'
}

func (w *watcher) see(r *events.Record, now int64, sum *counts) {
	if r.Offset < w.before[r.Partition] {
		return
	}
	if w.each != nil {
		w.each(r, now)
	}
	sum.facts++
	sum.bytes += int64(r.Size())
	if ofItem(r.Value) {
		sum.itemBytes += int64(r.Size())
	}
	switch string(r.HeaderBytes(events.HeaderType)) { // a switch needs no copy
	case "sagalog.Submitted":
		if _, ours := w.names.number(r.Key); ours { // an earlier run may have left submissions
			sum.submitted++
		}
	case "sagalog.StepStarted", "sagalog.CompensationStarted":
		sum.started++
	case "sagalog.StepCompleted":
		sum.outcomes++
		sum.completed++
	case "sagalog.Compensated":
		sum.outcomes++
	case "sagalog.StepFailed", "sagalog.CompensationFailed":
		sum.outcomes++
		sum.failure++
	case "sagalog.Timeout":
		sum.outcomes++
		sum.timeouts++
	case "sagalog.TaskProcessed":
		w.end(r, now, sum)
	case "sagalog.TaskUndone", "sagalog.TaskTerminated", "sagalog.TaskParked":
		sum.badly++
		w.end(r, now, sum)
	}
}

func (w *watcher) end(r *events.Record, now int64, sum *counts) {
	task, ok := w.names.number(r.Key)
	if !ok {
		return
	}
	sum.ended++
	if w.due == nil {
		return
	}
	due := atomic.LoadInt64(w.due.at(task))
	if due < w.from.Load() || due >= w.to.Load() {
		return
	}
	w.latency.add(time.Duration(now - due))
	if !w.hit(task) {
		w.untailed.add(time.Duration(now - due))
	}
}
