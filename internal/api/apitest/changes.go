package apitest

import (
	"context"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// feed tells those who watch what each fact changes.
type feed struct {
	watching map[int]func(api.Change)
	begun    int
	was      map[string]events.TaskState
	// trimmed is the first offset that the log of each partition holds.
	trimmed [Partitions]int64
}

// changedBy is called with the engine's mu held, after each fact.
func (e *Engine) changedBy(task string, partition int32) {
	was := e.feed.was[task]
	if t := e.tasks[task]; t != nil {
		if e.feed.was == nil {
			e.feed.was = map[string]events.TaskState{}
		}
		e.feed.was[task] = t.State
	}
	for _, f := range e.feed.watching {
		f(api.Change{Partition: partition, Next: e.ends[partition], Tasks: []api.TaskChange{{ID: task, Was: was}}})
	}
}

// Watch implements api.Changes.
func (e *Engine) Watch(changed func(api.Change)) (stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.feed.watching == nil {
		e.feed.watching = map[int]func(api.Change){}
	}
	e.feed.begun++
	id := e.feed.begun
	e.feed.watching[id] = changed
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.feed.watching, id)
	}
}

// Watching is how many watch.
func (e *Engine) Watching() int { e.mu.Lock(); defer e.mu.Unlock(); return len(e.feed.watching) }

// Next implements api.Changes.
func (e *Engine) Next(partition int32) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ends[partition]
}

// States implements api.Changes.
func (e *Engine) States(partition int32) map[events.TaskState]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	sum := map[events.TaskState]int64{}
	for _, t := range e.tasks {
		if events.Home(t.ID, Partitions) == partition {
			sum[t.State]++
		}
	}
	return sum
}

// Trim makes the log of a partition begin at an offset.
func (e *Engine) Trim(partition int32, offset int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.feed.trimmed[partition] = offset
}

// Concerned implements api.Changes.
func (e *Engine) Concerned(_ context.Context, partition int32, from, to int64) ([]string, error) {
	e.LogReads.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if from < e.feed.trimmed[partition] {
		return nil, api.ErrBeforeLog
	}
	var ids []string
	for id, facts := range e.facts {
		for _, f := range facts {
			if events.Home(id, Partitions) == partition && f.Record.Offset >= from && f.Record.Offset < to {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

// Submit makes a pending task of the workflow order.
func (e *Engine) Submit(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.tick()
	e.tasks[id] = &events.Task{ID: id, Run: 1, Workflow: "order", Version: 1, State: events.TaskStatePending, SubmittedAt: now, UpdatedAt: now, Facts: 1}
	e.fact(id, "", &events.Submitted{Workflow: "order", Version: 1})
}

// WatchTask implements api.Tasks.
func (e *Engine) WatchTask(string, func(events.TaskState) bool) (changes <-chan struct{}, stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watched != nil {
		close(e.watched)
		e.watched = nil
	}
	c := make(chan struct{}, 1)
	e.watching[c] = struct{}{}
	return c, func() { e.mu.Lock(); delete(e.watching, c); e.mu.Unlock() }
}

// Watched returns a channel that is closed when somebody next begins to wait for a change.
func (e *Engine) Watched() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watched = make(chan struct{})
	return e.watched
}
