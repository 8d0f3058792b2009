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

// load submits tasks by Kafka from one goroutine. The answers come from goroutines of the client.
type load struct {
	names      names
	producer   *kafka.Producer
	topic      string
	value      []byte
	partitions int32
	base       time.Time
	// due is nil if no latency is measured.
	due  *table[int64]
	acks *acks
	// limit ends the load after this many tasks; 0 means no limit.
	limit int
	// most is how many tasks the tables have room for.
	most int
	// untilAck counts a task as under way until its submission is answered, not until it ends.
	untilAck bool
	// from and to bound the window of the submissions that count.
	from, to atomic.Int64

	next     atomic.Int64
	inFlight atomic.Int64
	// wake receives a value when tasks have ended.
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

// count counts an answer. The answer holds the times since the submission was due and since it was sent. counted says
// that it was due in the window.
func (a *acks) count(x answer, counted bool) {
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

func newLoad(n names, base time.Time) *load {
	l := &load{names: n, base: base, value: submission, most: maxTasks, acks: new(acks), wake: make(chan struct{}, 1)}
	l.from.Store(never)
	l.to.Store(never)
	return l
}

// ended frees the places of n ended tasks.
func (l *load) ended(n int) {
	l.inFlight.Add(-int64(n))
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// sent returns the number of submitted tasks.
func (l *load) sent() int { return int(l.next.Load()) }

func (l *load) now() int64 { return int64(time.Since(l.base)) }

// full says that no more tasks will be submitted.
func (l *load) full() bool { return l.sent() >= l.most || l.limit > 0 && l.sent() >= l.limit }

// submit sends the next task, which fell due at the time `due`.
func (l *load) submit(ctx context.Context, due int64) {
	task := l.number(due)
	id := l.names.append(make([]byte, 0, len(l.names.prefix)+9), task)
	sent := l.now()
	l.producer.Produce(ctx, events.Record{
		Topic: l.topic, Partition: events.Home(string(id), l.partitions), Key: id, Value: l.value,
	}, func(_ int32, _ int64, err error) {
		l.answered(answer{task: task, due: due, sent: sent, err: err})
	})
}

// number takes the number of the next task, which fell due at the time `due`.
func (l *load) number(due int64) int {
	task := int(l.next.Add(1) - 1)
	if l.due != nil {
		atomic.StoreInt64(l.due.at(task), due)
	}
	l.inFlight.Add(1)
	return task
}

// answer is the result of a submission.
type answer struct {
	task      int
	due, sent int64
	err       error
}

func (l *load) answered(a answer) {
	now := l.now()
	a.due, a.sent = now-a.due, now-a.sent
	l.acks.count(a, now-a.due >= l.from.Load() && now-a.due < l.to.Load())
	if a.err != nil || l.untilAck {
		l.ended(1)
	}
}

// closed keeps outstanding tasks under way until stop is closed. It looks at ctx in the inner loop, because after its end each
// submission fails at once and frees its place, and the loop would never reach stop.
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

// leastWait is the shortest sleep of an open loop. Submissions that fall due during it are sent together.
const leastWait = 500 * time.Microsecond

// open submits rate tasks a second by the clock, whether or not earlier ones have ended, until stop is closed. If it is late, it still
// sends each task, and the latency counts from when the task was due.
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
		timer.Reset(max(time.Duration(due-l.now()), leastWait))
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == nil {
		return nil
	}
	return fmt.Errorf("%d submissions were not acknowledged, the first with: %w", a.dropped.Load(), a.first)
}
