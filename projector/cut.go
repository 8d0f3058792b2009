package projector

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// Cut returns the offset at which the log of a partition may be cut at that time, if it may: see [events.Snapshot.Cut].
func Cut(p *Partition, at events.Instant) (offset int64, ok bool, err error) {
	e, err := p.view.Load().entity()
	if err != nil || len(e.Carried) == 0 {
		return 0, false, err
	}
	snap, v, err := p.snapshot(p.store.db) // both are of one commit
	if err != nil {
		return 0, false, err
	}
	if e, err = v.entity(); err != nil {
		return 0, false, err
	}
	offset, ok = snap.Cut(&e, at)
	return offset, ok, nil
}

// CarryAge returns for how long the facts of a partition have not been carried, from memory: 0 if there are none since the last complete carry.
func CarryAge(p *Partition, at events.Instant) (time.Duration, error) {
	e, err := p.view.Load().entity()
	if err != nil || e.SinceCarry == 0 {
		return 0, err
	}
	return max(0, at.Sub(e.CarriedAt)), nil
}
