package node

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sagalog/sagalog/supervisor"
)

const (
	// stalledAfter is how long nothing may be decided while inputs wait: a batch takes half a second, and a moving leader delays
	// the answer to an append by a few seconds.
	stalledAfter = 30 * time.Second
	// stalledEvery is how often partitions are looked at.
	stalledEvery = time.Second
)

// decider is the owner of a partition, as its shell shows it.
type decider interface {
	Status() (supervisor.Status, error)
	// Busy returns how long the owner has been at its current step, 0 if it waits for something to do.
	Busy() time.Duration
}

// stalls notices partitions that this node owns and in which nothing is decided although inputs wait. The only reasons for that
// are a defect, or an input that takes very long to judge.
type stalls struct {
	log *slog.Logger
	// partitions are the owners, by partition.
	partitions []decider

	// mu guards the field below.
	mu sync.Mutex
	// spells are the spells of the partitions.
	spells []spell
}

// spell is a time in which a partition recorded no fact although inputs waited. The time in which it was not owned does not count.
type spell struct {
	// facts is how many facts were durable when it began.
	facts    uint64
	lasted   time.Duration
	lookedAt time.Time
	reported bool
}

func newStalls(log *slog.Logger, shells []*supervisor.Shell) *stalls {
	s := &stalls{log: log, spells: make([]spell, len(shells))}
	for _, shell := range shells {
		s.partitions = append(s.partitions, shell)
	}
	return s
}

// look looks at all partitions.
func (s *stalls) look() {
	for p, d := range s.partitions {
		status, err := d.Status()
		busy := d.Busy()
		s.mu.Lock()
		spell := &s.spells[p]
		if spell.look(&status, busy); err != nil { // a partition that has stopped says so itself
			spell.lasted = 0
		}
		lasted := spell.stalled()
		report := lasted > 0 && !spell.reported
		spell.reported = lasted > 0
		s.mu.Unlock()
		if report {
			s.log.Error("nothing is decided in this partition although inputs wait: one of them may take very long to judge, or the disk may not answer",
				"partition", p, "for", lasted, "waiting", status.Waiting, "busy", busy)
		}
	}
}

func (s *spell) look(status *supervisor.Status, busy time.Duration) {
	waits := status.Waiting > 0 || status.InFlight > 0 || busy > stalledEvery
	switch {
	case status.Suspended, status.Stats.Durable != s.facts, status.Owning && !waits, !status.Assigned:
		*s = spell{facts: status.Stats.Durable, reported: s.reported}
	case status.Owning:
		s.lasted += min(time.Since(s.lookedAt), 2*stalledEvery) // this process may have slept
	}
	s.lookedAt = time.Now()
}

// stalled returns how long the spell has lasted, 0 if it is not too long yet.
func (s *spell) stalled() time.Duration {
	if s.lasted < stalledAfter {
		return 0
	}
	return s.lasted
}

// stalled returns how long a partition has been stalled, 0 if it is not.
func (s *stalls) stalled(p int32) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spells[p].stalled()
}

// of returns an error if a partition is stalled.
func (s *stalls) of(p int32) error {
	if lasted := s.stalled(p); lasted > 0 {
		return fmt.Errorf("partition %d has decided nothing for %s although inputs wait", p, lasted.Round(time.Second))
	}
	return nil
}
