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
	"github.com/stretchr/testify/require"
)

// errandCommit is how often the group commits: many times in each move of its coordinator.
const errandCommit = 200 * time.Millisecond

// errands are requests that a shared producer writes, and a group reads and commits.
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
	// refused are requests that the producer gave up, uncommitted the commits that failed.
	refused, uncommitted []error
}

func newErrands(t *testing.T, w world, topic string) *errands {
	t.Helper()
	group, err := kafka.NewGroup(w.Cluster, kafka.GroupConfig{Group: w.topics.Namespace + ".agents", Topics: []string{topic}})
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

// write sends requests until ctx ends, and then waits for its answers.
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

// read polls and commits. An error of a broker is not for long, and a commit that failed is made good by the next one.
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
	ctx, cancel := context.WithTimeout(ctx, stepWait)
	defer cancel()
	return e.group.Commit(ctx, kafka.Offsets{e.topic: e.marks})
}

// end waits until everything that was sent was read, and commits it.
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
	require.Eventually(t, func() bool { return missing() == 0 }, stepWait, moveTick, "the group does not see what was sent")
	e.stop()
	e.done.Wait()
	require.Empty(t, e.refused, "the leaders were away for seconds only")
	require.NoError(t, e.commit(within(t)))
	got, err := e.w.CommittedOffsets(within(t), e.w.topics.Namespace+".agents")
	require.NoError(t, err)
	require.Equal(t, e.marks, got[e.topic])
	t.Logf("the group read %d requests; %d commits failed meanwhile: %v", len(e.sent), len(e.uncommitted), errors.Join(e.uncommitted...))
	require.NoError(t, e.group.Leave(within(t)))
}
