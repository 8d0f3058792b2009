package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// errandCommit is how often the group commits: many times during each move of its coordinator.
const errandCommit = 200 * time.Millisecond

// errands holds the requests that a shared producer writes and that a group reads and commits.
type errands struct {
	w     world
	topic string
	out   *kafka.Producer
	group *kafka.Group
	stop  context.CancelFunc
	done  sync.WaitGroup

	// mu guards the fields below.
	mu    sync.Mutex
	sent  map[string]bool
	seen  map[string]bool
	marks map[int32]int64
	// refused holds the errors of requests that the producer gave up on, and uncommitted the errors of failed commits.
	refused, uncommitted []error
}

func newErrands(t *testing.T, w world, topic string) *errands {
	t.Helper()
	group, err := kafka.NewGroup(w.Cluster, kafka.GroupConfig{Group: w.Topics.Namespace + ".agents", Topics: []string{topic}})
	require.NoError(t, err)
	t.Cleanup(group.Close)
	out, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	t.Cleanup(out.Close)
	ctx, stop := context.WithCancel(t.Context())
	e := &errands{
		w: w, topic: topic, out: out, group: group, stop: stop,
		sent: make(map[string]bool), seen: make(map[string]bool), marks: make(map[int32]int64),
	}
	e.done.Go(func() { e.read(ctx) })
	return e
}

// write sends requests until ctx ends, and then waits for the answers.
func (e *errands) write(ctx context.Context) {
	tick := time.NewTicker(moveTick)
	defer tick.Stop()
	var answers sync.WaitGroup
	defer answers.Wait()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r := events.Record{Topic: e.topic, Partition: int32(i % movePartitions), Value: fmt.Append(nil, i)}
		answers.Add(1)
		e.out.Produce(context.Background(), r, func(_ int32, _ int64, err error) {
			defer answers.Done()
			e.mu.Lock()
			defer e.mu.Unlock()
			if err != nil {
				e.refused = append(e.refused, err)
			} else {
				e.sent[string(r.Value)] = true
			}
		})
	}
}

// read polls and commits. Broker errors are temporary, and the next commit also covers a failed one.
func (e *errands) read(ctx context.Context) {
	committed := time.Now()
	for {
		recs, err := e.group.Poll(ctx, 1000)
		if ctx.Err() != nil || errors.Is(err, kafka.ErrClosed) {
			return
		}
		e.take(recs)
		if time.Since(committed) > errandCommit {
			committed = time.Now()
			if err := e.commit(ctx); err != nil {
				e.uncommitted = append(e.uncommitted, err)
			}
		}
	}
}

func (e *errands) take(recs []events.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range recs {
		e.seen[string(r.Value)] = true
		e.marks[r.Partition] = r.Offset + 1
	}
}

func (e *errands) commit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kafkatest.StepWait)
	defer cancel()
	return e.group.Commit(ctx, kafka.Offsets{e.topic: e.marks})
}

// end waits until everything that was sent has been read, and commits it.
func (e *errands) end(t *testing.T) {
	t.Helper()
	missing := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		n := 0
		for value := range e.sent {
			if !e.seen[value] {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return missing() == 0 }, kafkatest.StepWait, moveTick, "the group has not read everything that was sent")
	e.stop()
	e.done.Wait()
	require.Empty(t, e.refused, "the leaders were away for seconds only")
	require.NoError(t, e.commit(kafkatest.Within(t)))
	got, err := e.w.CommittedOffsets(kafkatest.Within(t), e.w.Topics.Namespace+".agents")
	require.NoError(t, err)
	require.Equal(t, e.marks, got[e.topic])
	t.Logf("the group read %d requests; %d commits failed meanwhile: %v", len(e.sent), len(e.uncommitted), errors.Join(e.uncommitted...))
	require.NoError(t, e.group.Leave(kafkatest.Within(t)))
}
