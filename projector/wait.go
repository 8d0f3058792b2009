package projector

import "context"

// Changed returns a channel that is closed by the next commit of the partition. Take it before looking at what may
// change, or a commit in between is missed. It costs nothing where nobody waits, and is not closed by Close.
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

// Wait returns once cond holds for the partition, with what cond saw. It looks at once and after each commit, and ends
// with the error of ctx, or with ErrClosed when the store is closed.
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
