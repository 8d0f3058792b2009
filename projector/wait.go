package projector

import "context"

// Changed returns a channel that the next commit of the partition closes. Call it before reading what may change, or a
// commit in between is missed. It costs nothing while nobody waits. Close does not close it.
func (p *Partition) Changed() <-chan struct{} {
	for {
		if c := p.changed.Load(); c != nil {
			return *c
		}
		c := make(chan struct{})
		if p.changed.CompareAndSwap(nil, &c) {
			return c
		}
	}
}

func (p *Partition) broadcast() {
	if c := p.changed.Swap(nil); c != nil {
		close(*c)
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
