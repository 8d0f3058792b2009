package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// load submits tasks by Kafka. One goroutine does it; the answers come from the client's.
type load struct {
	names      names
	producer   *kafka.Producer
	topic      string
	partitions int32
	base       time.Time
	// due is nil where no latency is measured.
	due  *table[int64]
	acks *acks
	// limit ends the load after so many tasks, 0 for no limit.
	limit int
	// untilAck counts a task as under way until its submission is answered, and not until it ends.
	untilAck bool
	// from and to bound the window of those submissions that count.
	from, to atomic.Int64

	next     atomic.Int64
	inFlight atomic.Int64
	// wake tells that tasks have ended.
	wake chan struct{}
}

// acks are the answers to submissions.
type acks struct {
	// got holds 1 for each acknowledged task. Each place is written by one goroutine, once.
	got             table[uint8]
	acked, dropped  atomic.Int64
	fromDue, toSent histogram

	mu    sync.Mutex
	first error
}

// take is told an answer, with the times since it was due and sent. counted says that it was due in the window.
func (a *acks) take(x answer, counted bool) {
	if x.err != nil {
		a.dropped.Add(1)
		a.mu.Lock()
		if a.first == nil {
			a.first = x.err
		}
		a.mu.Unlock()
		return
	}
	*a.got.at(x.task) = 1
	a.acked.Add(1)
	if counted {
		a.fromDue.add(time.Duration(x.due))
		a.toSent.add(time.Duration(x.sent))
	}
}

func (a *acks) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.first
}

func newLoad(n names, base time.Time) *load {
	l := &load{names: n, base: base, acks: new(acks), wake: make(chan struct{}, 1)}
	l.from.Store(never)
	l.to.Store(never)
	return l
}

// ended is told how many tasks ended.
func (l *load) ended(n int) {
	l.inFlight.Add(-int64(n))
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// sent returns how many tasks were submitted.
func (l *load) sent() int { return int(l.next.Load()) }

func (l *load) now() int64 { return int64(time.Since(l.base)) }

// full says that no further task is to be submitted.
func (l *load) full() bool { return l.sent() >= maxTasks || l.limit > 0 && l.sent() >= l.limit }

// submit sends the next task, which was due at due.
func (l *load) submit(ctx context.Context, due int64) {
	task := l.number(due)
	id := l.names.append(make([]byte, 0, len(l.names.prefix)+9), task)
	sent := l.now()
	l.producer.Produce(ctx, events.Record{
		Topic: l.topic, Partition: events.Home(string(id), l.partitions), Key: id, Value: submission,
	}, func(_ int32, _ int64, err error) {
		l.answered(answer{task: task, due: due, sent: sent, err: err})
	})
}

// number takes the number of the next task, which was due at due.
func (l *load) number(due int64) int {
	task := int(l.next.Add(1) - 1)
	if l.due != nil {
		atomic.StoreInt64(l.due.at(task), due)
	}
	l.inFlight.Add(1)
	return task
}

// answer is what became of a submission.
type answer struct {
	task      int
	due, sent int64
	err       error
}

func (l *load) answered(a answer) {
	now := l.now()
	a.due, a.sent = now-a.due, now-a.sent
	l.acks.take(a, now-a.due >= l.from.Load() && now-a.due < l.to.Load())
	if a.err != nil || l.untilAck {
		l.ended(1)
	}
}

// closed keeps outstanding tasks under way until stop is closed. When ctx has ended, each submission is refused at once and
// its place is free again: the loop would never come to look at stop.
func (l *load) closed(ctx context.Context, stop <-chan struct{}, outstanding int) {
	for !l.full() {
		for l.inFlight.Load() < int64(outstanding) && !l.full() && ctx.Err() == nil {
			l.submit(ctx, l.now())
		}
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		case <-l.wake:
		}
	}
}

// pause is how long an open loop sleeps at least: what falls due meanwhile is sent together.
const pause = 500 * time.Microsecond

// open submits rate tasks a second by the clock, whether or not earlier ones have ended, until stop is closed. What could
// not be sent in time is sent late, and its latency is counted from when it was due.
func (l *load) open(ctx context.Context, stop <-chan struct{}, rate float64) {
	begin := l.now()
	every := float64(time.Second) / rate
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := 0; !l.full(); {
		now := l.now()
		due := begin + int64(float64(i)*every)
		for ; due <= now && !l.full(); due = begin + int64(float64(i)*every) {
			l.submit(ctx, due)
			if i++; i%1024 == 0 && isClosed(stop) {
				return
			}
		}
		timer.Reset(max(time.Duration(due-l.now()), pause))
		select {
		case <-stop:
			return
		case <-timer.C:
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// refusal is the error of a run in which submissions were refused.
func (a *acks) refusal() error {
	if n := a.dropped.Load(); n > 0 {
		return fmt.Errorf("%d submissions were not acknowledged, the first with: %w", n, a.err())
	}
	return nil
}
