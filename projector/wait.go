package projector

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sagalog/sagalog/events"
)

// Wait returns once cond holds for the partition, with the value that cond returned. It checks at once and after each
// commit. It returns the error of ctx when that ends, and ErrClosed when the store is closed.
func (s *Store) Wait(ctx context.Context, partition int32, cond func(Info) bool) (Info, error) {
	p := s.Partition(partition)
	for {
		changed := p.watched.next()
		info, err := p.Info()
		if err != nil || cond(info) {
			return info, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return info, ctx.Err()
		case <-s.done:
			return info, ErrClosed
		}
	}
}

// watched knows who waits for a change of a partition.
type watched struct {
	// changed is closed and removed by each commit; nil while nobody waits for any change.
	changed atomic.Pointer[chan struct{}]
	// watches counts the watches, so that a commit costs nothing while there are none.
	watches atomic.Int64

	mu sync.Mutex
	// mu guards names: all watches by the name that they watch.
	names map[string][]*watch
}

// watch is that of one caller.
type watch struct {
	c chan struct{}
	// when chooses the commits; nil chooses all.
	when func(events.TaskState) bool
}

// Watch returns a channel that receives after each commit with a fact of a task, which need not exist, and after a Reset. If when is given, only
// commits count that change the task and leave it in a state that when chooses: it gets "" if the task was forgotten. For a schedule the name is
// its events.ScheduleKey, and all commits that change it count. Commits that come before the channel is read are one receipt. Call Watch before
// reading the task, or a commit in between is missed, and stop at the end.
func (p *Partition) Watch(name string, when func(events.TaskState) bool) (changes <-chan struct{}, stop func()) {
	x := &watch{c: make(chan struct{}, 1), when: when}
	w := &p.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == nil {
		w.names = make(map[string][]*watch)
	}
	w.names[name] = append(w.names[name], x)
	w.watches.Add(1)
	return x.c, sync.OnceFunc(func() { w.end(name, x) })
}

func (w *watched) end(name string, x *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches.Add(-1)
	rest := slices.DeleteFunc(w.names[name], func(other *watch) bool { return other == x })
	if len(rest) == 0 {
		delete(w.names, name)
		return
	}
	w.names[name] = rest
}

// Awaited says whether somebody waits for a change of the partition.
func (p *Partition) Awaited() bool {
	return p.watched.watches.Load() > 0 || p.watched.changed.Load() != nil
}

// next returns a channel that the next commit closes. Call it before reading what may change, or a commit in between is missed. It costs nothing
// while nobody waits. Closing the store does not close it.
func (w *watched) next() <-chan struct{} {
	for {
		if c := w.changed.Load(); c != nil {
			return *c
		}
		c := make(chan struct{})
		if w.changed.CompareAndSwap(nil, &c) {
			return c
		}
	}
}

// broadcast is called after a commit.
func (w *watched) broadcast() {
	if c := w.changed.Swap(nil); c != nil {
		close(*c)
	}
}

// wake is called after a commit, with what it wrote.
func (w *watched) wake(d *events.Delta) {
	if w.watches.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range d.Tasks {
		row := &d.Tasks[i]
		for _, x := range w.names[row.ID] {
			if x.when == nil || x.when(row.Keys.State) {
				x.receive()
			}
		}
	}
	for i := range d.History { // not every fact of a task changes it: its submission may have come again with other content
		for _, x := range w.names[d.History[i].Task] {
			if x.when == nil {
				x.receive()
			}
		}
	}
	for i := range d.Parts {
		if d.Parts[i].Kind == events.KindSchedule {
			receiveAll(w.names[events.ScheduleKey(d.Parts[i].ID)])
		}
	}
}

// reset is called when the partition is emptied.
func (w *watched) reset() {
	w.broadcast()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, list := range w.names {
		receiveAll(list)
	}
}

func receiveAll(list []*watch) {
	for _, x := range list {
		x.receive()
	}
}

func (x *watch) receive() {
	select {
	case x.c <- struct{}{}:
	default: // it has a receipt that was not read yet
	}
}
