//go:build sagalog_testhooks

package node

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/supervisor"
)

// killVariable is POINT or POINT:N: the process kills itself with SIGKILL at the N-th pass of that point. @FILE stands for the
// content of the file once it exists, so that a test can choose when a running process dies.
const killVariable = "SAGALOG_TEST_KILL_AT"

// killPoint is a row of the crash table.
type killPoint string

// The points. Each is passed once for each record or batch that it names.
const (
	// killAcknowledged: the broker has acknowledged a submission of the API, whose client has no answer yet.
	killAcknowledged killPoint = "submission-acknowledged"
	// killRead: inputs were read, but the owner does not have them yet.
	killRead killPoint = "input-read"
	// killDecided: facts were decided, but not yet handed to the Kafka client.
	killDecided killPoint = "facts-decided"
	// killSent: facts were handed over, but the answer is not known. The log may hold them.
	killSent killPoint = "append-sent"
	// killDurable: the log has acknowledged facts that the store does not hold.
	killDurable killPoint = "facts-durable"
	// killCommitted: the store holds facts, but none of their effects was sent.
	killCommitted killPoint = "committed"
	// killWorkSent: the broker has acknowledged a work request, but the owner does not know it yet.
	killWorkSent killPoint = "work-sent"
	// killForwarding: the fact InputForwarded is durable, but the input was not forwarded yet.
	killForwarding killPoint = "misplaced-found"
	// killTimeout: a Timeout was handed over, but the answer is not known.
	killTimeout killPoint = "timeout-decided"
	// killClaimed: a claim is durable, but the new owner does not know it yet.
	killClaimed killPoint = "claim-durable"
)

// sentWithin bounds how long an append that was handed over may travel before the process dies.
const sentWithin = 2 * time.Millisecond

// doom is the point at which this process dies.
type doom struct {
	point killPoint
	left  *atomic.Int64
}

var (
	doomed   atomic.Pointer[doom]
	doomOnce sync.Once
)

// pass kills the process if this is its last pass.
func pass(p killPoint) {
	if last(p) {
		die()
	}
}

// last says whether this is the last pass.
func last(p killPoint) bool {
	doomOnce.Do(beDoomed)
	d := doomed.Load()
	return d != nil && d.point == p && d.left.Add(-1) == 0
}

// die never returns.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func beDoomed() {
	v := os.Getenv(killVariable)
	if file, ok := strings.CutPrefix(v, "@"); ok {
		readDoom(file)
		go func() {
			for {
				time.Sleep(fileEvery)
				readDoom(file)
			}
		}()
		return
	}
	setDoom(v)
}

// readDoom reads the file; without a file the process lives on.
func readDoom(file string) {
	b, err := os.ReadFile(file)
	switch d := doomed.Load(); {
	case err != nil:
		doomed.Store(nil)
	case d == nil:
		setDoom(string(b))
	}
}

func setDoom(text string) {
	point, number, _ := strings.Cut(strings.TrimSpace(text), ":")
	if point == "" {
		return
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		n = 1
	}
	d := &doom{point: killPoint(point), left: new(atomic.Int64)}
	d.left.Store(n)
	doomed.Store(d)
}

func mortalLog(l supervisor.Log) supervisor.Log { return &dyingLog{l} }

type dyingLog struct{ supervisor.Log }

// Read implements supervisor.Log.
func (l *dyingLog) Read(ctx context.Context, t supervisor.Topic, from int64, give func([]events.Record, int64) error) error {
	if t == supervisor.EventsTopic {
		return l.Log.Read(ctx, t, from, give)
	}
	return l.Log.Read(ctx, t, from, func(records []events.Record, next int64) error {
		if len(records) > 0 {
			pass(killRead)
		}
		return give(records, next)
	})
}

// NewProducer implements supervisor.Log.
func (l *dyingLog) NewProducer() (supervisor.Producer, error) {
	p, err := l.Log.NewProducer()
	if err != nil {
		return nil, err
	}
	return &dyingProducer{p}, nil
}

// Send implements supervisor.Log.
func (l *dyingLog) Send(ctx context.Context, list []supervisor.Outgoing, done func(int, error)) {
	work := make([]bool, len(list))
	for i := range list {
		if slices.Contains(events.Inputs[:], events.Input(list[i].Topic)) {
			pass(killForwarding)
		}
		work[i] = strings.HasPrefix(list[i].Topic, "work.")
	}
	l.Log.Send(ctx, list, func(i int, err error) {
		if err == nil && work[i] {
			pass(killWorkSent)
		}
		done(i, err)
	})
}

type dyingProducer struct{ supervisor.Producer }

// Append implements supervisor.Producer.
func (p *dyingProducer) Append(records []events.Record, done func([]int64, error)) {
	claim := has(records, events.NamePartitionClaimed)
	if !claim {
		pass(killDecided)
	}
	p.Producer.Append(records, func(offsets []int64, err error) {
		switch {
		case err != nil:
		case claim:
			pass(killClaimed)
		default:
			pass(killDurable)
		}
		done(offsets, err)
	})
	if !claim && last(killSent) || has(records, events.NameTimeout) && last(killTimeout) {
		// The owner's goroutine stops here, so the answer has no consequences.
		time.Sleep(rand.N(sentWithin))
		die()
	}
}

func has(records []events.Record, name events.Name) bool {
	for i := range records {
		if records[i].Header(events.HeaderType) == events.TypePrefix+string(name) {
			return true
		}
	}
	return false
}

func mortalCommitter(c supervisor.Committer) supervisor.Committer { return &dyingCommitter{c} }

type dyingCommitter struct{ supervisor.Committer }

// Commit implements supervisor.Committer.
func (c *dyingCommitter) Commit(d *events.Delta, last events.Record) error {
	if err := c.Committer.Commit(d, last); err != nil {
		return err
	}
	pass(killCommitted)
	return nil
}

func mortalAppender(a api.Appender) api.Appender { return &dyingAppender{a} }

type dyingAppender struct{ api.Appender }

// Produce implements api.Appender.
func (a *dyingAppender) Produce(ctx context.Context, r events.Record, done func(int32, int64, error)) {
	submission := strings.HasSuffix(r.Topic, "."+string(events.Submissions))
	a.Appender.Produce(ctx, r, func(partition int32, offset int64, err error) {
		if err == nil && submission {
			pass(killAcknowledged)
		}
		done(partition, offset, err)
	})
}

// ProduceBatch implements api.Appender.
func (a *dyingAppender) ProduceBatch(ctx context.Context, records []events.Record, done func(i int, partition int32, offset int64, err error)) {
	for i, r := range records {
		a.Produce(ctx, r, func(partition int32, offset int64, err error) { done(i, partition, offset, err) })
	}
}
