package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
)

// watchers are called after each commit of the store. Without watchers a commit costs one atomic load more.
type watchers struct {
	mu   sync.Mutex // held while the list changes
	list atomic.Pointer[[]*func(api.Change)]
}

// watch adds a function until stop is called.
func (w *watchers) watch(changed func(api.Change)) (stop func()) {
	at := &changed
	w.replace(func(list []*func(api.Change)) []*func(api.Change) { return append(list, at) })
	return func() {
		w.replace(func(list []*func(api.Change)) []*func(api.Change) {
			return slices.DeleteFunc(list, func(f *func(api.Change)) bool { return f == at })
		})
	}
}

func (w *watchers) replace(change func([]*func(api.Change)) []*func(api.Change)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*func(api.Change)
	if now := w.list.Load(); now != nil {
		list = slices.Clone(*now)
	}
	if list = change(list); len(list) == 0 {
		w.list.Store(nil)
		return
	}
	w.list.Store(&list)
}

// tell says what a commit changed.
func (w *watchers) tell(deltas []*events.Delta) {
	list := w.list.Load()
	if list == nil {
		return
	}
	for _, d := range deltas {
		c := api.Change{Partition: d.Partition, Next: d.Next, Tasks: make([]api.TaskChange, 0, len(d.Tasks))}
		for i := range d.Tasks {
			t := api.TaskChange{ID: d.Tasks[i].ID}
			if was := d.Tasks[i].Was; was != nil {
				t.Was = was.State
			}
			c.Tasks = append(c.Tasks, t)
		}
		for _, f := range *list {
			(*f)(c)
		}
	}
}

// changes implements api.Changes.
type changes struct{ store *stateStore }

// Watch implements api.Changes.
func (c *changes) Watch(changed func(api.Change)) (stop func()) {
	return c.store.watchers.watch(changed)
}

// Next implements api.Changes.
func (c *changes) Next(partition int32) int64 { return c.store.Partition(partition).Next() }

// States implements api.Changes.
func (c *changes) States(partition int32) map[events.TaskState]int64 {
	return c.store.Partition(partition).States()
}

// Concerned implements api.Changes.
func (c *changes) Concerned(ctx context.Context, partition int32, from, to int64) ([]string, error) {
	var ids []string
	ns := c.store.ns
	err := ns.cluster.ReadRange(ctx, ns.topics.Events(), partition, from, to, func(r events.Record) error {
		if len(r.Key) > 0 { // not about the partition
			ids = append(ids, string(r.Key))
		}
		return nil
	})
	if errors.As(err, new(*kafka.OutOfRangeError)) {
		return nil, api.ErrBeforeLog
	}
	return ids, noAnswer(err)
}
