package sim

import (
	"time"
	"unsafe"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// real is a time with a monotonic part, which only the system can make.
var real = time.Now()

// reading is the time that a node's clocks show: the wall clock, and the monotonic one, which does not jump. Package
// time cannot set the two separately, so the monotonic reading is written directly into the second word of the value.
func (n *node) reading() time.Time {
	since := n.w.now.Sub(begin)
	t := real.Add(since)
	wall := real.Add(begin.Time().Sub(real.Round(0)) + since + n.ahead)
	(*[3]uint64)(unsafe.Pointer(&wall))[1] = (*[3]uint64)(unsafe.Pointer(&t))[1]
	return wall
}

// clocks are those of the nodes.
type clocks struct {
	w *World
	// begunAhead says that some node's clock was ahead of the world's from the beginning.
	begunAhead bool
	// compared says that each node knows whether its clock is right.
	compared bool
}

// hold says whether no node's clock was, is, or will be ahead of the world's clock, which agents and services
// use. Such a clock, and the log's time that follows it, would end the time of an attempt in doubt too early.
func (c *clocks) hold() bool { return !c.begunAhead && !c.set() }

// set says whether the clock of some node is set wrong in this run.
func (c *clocks) set() bool { return c.w.opt.Faults.Jump > 0 || c.w.opt.Faults.Wrong > 0 }

// now reads the slot's clock, suspends its owner while the clock is suspected or doubted, and says whether the clock agrees, as the shell does.
func (s *slot) now() events.Instant {
	was, t := s.clock.Jump(), s.node.reading()
	agreed, doubted := s.node.compares()
	if agreed && !s.clock.Suspect() && s.clock.AheadOf(t) > events.TimeCorrectable {
		s.clock = supervisor.NewClock(t)
	}
	now, turned := s.clock.Read(t, doubted)
	suspect := s.clock.Suspect()
	if turned || agreed != s.agreed {
		s.agreed = agreed
		s.owner.Suspend(now, suspect, agreed)
	}
	if turned {
		if suspect {
			s.node.w.saw(sawSuspended)
		} else if was > 10*time.Second && s.node.ahead > 10*time.Second {
			s.node.w.saw(sawJumpBelieved)
		}
		s.node.w.note("%s/%d suspects its clock: %v", s.node.name, s.part.id, suspect)
	}
	return now
}

// shown is the time that an owner's clock showed at some moment. From then on it advances with the world's clock.
type shown struct{ at, showed events.Instant }

// timeline holds the times that an owner's clock showed during one life of its process, as long as they ascended: after a correction another one
// begins. So the facts of an owner that has not heard of the correction keep theirs.
type timeline []shown

// noteTime notes the owner's time whenever it did not just advance with the world's clock.
func (s *slot) noteTime() {
	now, w, line := s.owner.Status().Time, s.node.w, *s.time
	last := len(line) - 1
	if last >= 0 && line[last].showed.Sub(now) > events.TimeCorrectable {
		s.time, line, last = &timeline{}, nil, -1
	}
	if last < 0 || line[last].showed-line[last].at != now-w.now {
		*s.time = append(line, shown{w.now, now})
	}
}

// moment returns the world's time at which the owner's clock first showed at least the given time.
func (line timeline) moment(showed events.Instant) events.Instant {
	for i, t := range line {
		if t.showed >= showed {
			return t.at
		}
		at := t.at + showed - t.showed
		if i+1 == len(line) || at < line[i+1].at {
			return at
		}
	}
	return begin
}
