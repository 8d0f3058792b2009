package node_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

// seen is one record of events, as the observer folded it.
type seen struct {
	partition int32
	offset    int64
	epoch     string
	fact      *events.Fact
	fate      events.Fate
}

// observer is a reader that knows only events: it folds every partition from its beginning.
type observer struct {
	t *testing.T
	// mu guards the fields below.
	mu     sync.Mutex
	states []*events.State
	facts  []seen
	moved  chan struct{}
	err    error
	// over says that the test does not look at new records any more.
	over bool
}

func observe(w *world) *observer {
	w.t.Helper()
	o := &observer{t: w.t, moved: make(chan struct{})}
	r, err := kafka.NewReader(w.cluster, kafka.ReaderConfig{})
	require.NoError(w.t, err)
	for p := range w.parts {
		o.states = append(o.states, events.NewState(p, nil))
		o.states[p].SetLevel(newerBuild)
		r.Add(w.topics.Events(), p, 0, -1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.run(ctx, r)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-ended
		r.Close()
		require.NoError(w.t, o.err)
	})
	return o
}

func (o *observer) run(ctx context.Context, r *kafka.Reader) {
	for {
		fetches, err := r.Poll(ctx)
		if err != nil {
			return
		}
		o.mu.Lock()
		for _, f := range fetches {
			if o.over {
				break
			}
			if f.Err != nil && o.err == nil {
				o.err = f.Err
			}
			for i := range f.Records {
				o.fold(&f.Records[i])
			}
		}
		close(o.moved)
		o.moved = make(chan struct{})
		o.mu.Unlock()
	}
}

func (o *observer) fold(r *events.Record) {
	f, err := events.DecodeFact(r)
	if err == nil {
		s := o.states[r.Partition]
		var fate events.Fate
		fate, err = s.Apply(f, r.Offset)
		o.facts = append(o.facts, seen{r.Partition, r.Offset, s.Partition.Epoch.String(), f, fate})
	}
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("fold %d/%d: %w", r.Partition, r.Offset, err)
	}
}

// task returns a task as folded. It is called inside a condition, with mu held.
func (o *observer) task(id string) *events.Task {
	t, err := o.states[events.Home(id, int32(len(o.states)))].Task(id)
	if err != nil {
		o.err = err
	}
	return t
}

// await waits until the condition holds. The condition is called with mu held.
func (o *observer) await(what string, cond func() bool) {
	o.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		o.mu.Lock()
		ok, moved, err := cond(), o.moved, o.err
		o.mu.Unlock()
		require.NoError(o.t, err)
		if ok {
			return
		}
		select {
		case <-moved:
		case <-limit.C:
			require.FailNow(o.t, "timed out waiting until "+what)
		}
	}
}

// state waits until a task is in one of the states and returns a copy of it.
func (o *observer) state(id string, states ...events.TaskState) events.Task {
	o.t.Helper()
	var got events.Task
	o.await(fmt.Sprintf("%s is %v", id, states), func() bool {
		t := o.task(id)
		for _, s := range states {
			if t != nil && t.State == s {
				got = *t
				return true
			}
		}
		return false
	})
	return got
}

// ended waits until all tasks have ended.
func (o *observer) ended(list ...string) {
	o.t.Helper()
	left := list
	o.await(fmt.Sprintf("%d tasks have ended", len(list)), func() bool {
		for len(left) > 0 {
			if t := o.task(left[0]); t == nil || !t.State.Ended() {
				return false
			}
			left = left[1:]
		}
		return true
	})
}

// log returns the records that were folded so far.
func (o *observer) log() []seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]seen(nil), o.facts...)
}

// story returns the accepted facts of a task as "Name step/attempt".
func (o *observer) story(id string) []string {
	var list []string
	for _, s := range o.log() {
		if s.fate == events.FateAccepted && s.fact.Task == id {
			list = append(list, tell(s.fact))
		}
	}
	return list
}

func tell(f *events.Fact) string {
	name := string(f.Body.Name())
	switch b := f.Body.(type) {
	case *events.StepStarted:
		return fmt.Sprintf("%s %s %d", name, b.Step, b.Attempt)
	case *events.StepCompleted:
		return fmt.Sprintf("%s %s %d", name, b.Step, b.Attempt)
	case *events.StepFailed:
		return fmt.Sprintf("%s %s %d %s", name, b.Step, b.Attempt, b.Verdict.Action)
	case *events.Timeout:
		return fmt.Sprintf("%s %s %d %s", name, b.Step, b.Attempt, b.Verdict.Action)
	case *events.CompensationStarted:
		return fmt.Sprintf("%s %s %d", name, b.Step, b.Attempt)
	case *events.Compensated:
		return fmt.Sprintf("%s %s %d", name, b.Step, b.Attempt)
	case *events.CompensationFailed:
		return fmt.Sprintf("%s %s %d %s", name, b.Step, b.Attempt, b.Verdict.Action)
	case *events.DeadlinePassed:
		return name + " " + b.Action
	}
	return name
}

// verify checks invariants of every log: each epoch has one owner, sequences have no gap, and each task is accepted
// once.
func (o *observer) verify() (void int) {
	o.t.Helper()
	next := map[string]uint64{}
	owner := map[string]string{}
	accepted := map[string]int{}
	for _, s := range o.log() {
		if s.fate != events.FateAccepted {
			void++
			continue
		}
		if c, ok := s.fact.Body.(*events.PartitionClaimed); ok {
			require.NotContains(o.t, owner, s.epoch, "an epoch is claimed once")
			owner[s.epoch] = c.Owner
			continue
		}
		at := fmt.Sprint(s.partition, s.epoch)
		require.Equal(o.t, s.epoch, s.fact.Epoch.String(), "an accepted fact is of the current epoch")
		require.Equal(o.t, next[at], s.fact.Sequence)
		next[at]++
		if _, ok := s.fact.Body.(*events.Submitted); ok {
			accepted[s.fact.Task]++
			require.Equal(o.t, 1, accepted[s.fact.Task], "%s is accepted once", s.fact.Task)
		}
	}
	return void
}

// pauseErrors makes the observer ignore errors: its log is about to be replaced.
func (o *observer) pauseErrors() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
}
