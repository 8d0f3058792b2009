package projector

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sagalog/sagalog/events"
)

// Changed returns a channel that the next commit of the partition closes. Call it before reading what may change, or a
// commit in between is missed. It costs nothing while nobody waits. Close does not close it.
func (p *Partition) Changed() <-chan struct{} {
	for {
		if c := p.watched.changed.Load(); c != nil {
			return *c
		}
		c := make(chan struct{})
		if p.watched.changed.CompareAndSwap(nil, &c) {
			return c
		}
	}
}

// Wait returns once cond holds for the partition, with the value that cond returned. It checks at once and after each
// commit. It returns the error of ctx when that ends, and ErrClosed when the store is closed.
func (s *Store) Wait(ctx context.Context, partition int32, cond func(Info) bool) (Info, error) {
	p := s.Partition(partition)
	for {
		changed := p.Changed()
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
	// mu guards channels: those of all watches by the name that they watch.
	channels map[string][]chan struct{}
}

// Watch returns a channel that receives after each commit that changes a task, which need not exist, and after a Reset. For a schedule the name is
// its events.ScheduleKey. Commits that come before the channel is read are one receipt. Call Watch before reading the task, or a commit in between is
// missed, and stop at the end.
func (p *Partition) Watch(name string) (changes <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w := &p.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.channels == nil {
		w.channels = make(map[string][]chan struct{})
	}
	w.channels[name] = append(w.channels[name], c)
	w.watches.Add(1)
	return c, sync.OnceFunc(func() { w.end(name, c) })
}

func (w *watched) end(name string, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches.Add(-1)
	rest := slices.DeleteFunc(w.channels[name], func(other chan struct{}) bool { return other == c })
	if len(rest) == 0 {
		delete(w.channels, name)
		return
	}
	w.channels[name] = rest
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
		receive(w.channels[d.Tasks[i].ID])
	}
	for i := range d.Parts {
		if d.Parts[i].Kind == events.KindSchedule {
			receive(w.channels[events.ScheduleKey(d.Parts[i].ID)])
		}
	}
}

// reset is called when the partition is emptied.
func (w *watched) reset() {
	w.broadcast()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, list := range w.channels {
		receive(list)
	}
}

func receive(list []chan struct{}) {
	for _, c := range list {
		select {
		case c <- struct{}{}:
		default: // it has a receipt that was not read yet
		}
	}
}
