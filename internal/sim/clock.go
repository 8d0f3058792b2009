package sim

import (
	"time"
	"unsafe"

	"github.com/sagalog/sagalog/events"
)

// real is a reading with a monotonic part: only the system makes one.
var real = time.Now()

// reading is what a node's clocks show: its wall clock, and the monotonic one, which no jump moves. Nothing in package
// time sets the two apart, so the second word of the value, which is the monotonic reading, is put in its place.
func (n *node) reading() time.Time {
	since := n.w.now.Sub(begin)
	t := real.Add(since)
	wall := real.Add(begin.Time().Sub(real.Round(0)) + since + n.ahead)
	(*[3]uint64)(unsafe.Pointer(&wall))[1] = (*[3]uint64)(unsafe.Pointer(&t))[1]
	return wall
}

// now reads the slot's clock and suspends its owner while the clock is suspected: what the shell does.
func (s *slot) now() events.Instant {
	was := s.clock.Jump()
	now, turned := s.clock.Read(s.node.reading())
	if turned {
		suspect := s.clock.Suspect()
		s.owner.Suspend(now, suspect)
		if suspect {
			s.node.w.saw(sawSuspended)
		} else if was > 10*time.Second && s.node.ahead > 10*time.Second {
			s.node.w.saw(sawJumpBelieved)
		}
		s.node.w.note("%s/%d suspects its clock: %v", s.node.name, s.part.id, suspect)
	}
	return now
}

// told is what an owner's clock showed from some time on: it goes on from there at the pace of the world.
type told struct{ at, showed events.Instant }

// timeline is what an owner's clock showed in one life of its process.
type timeline []told

// tellTime notes the time that the owner goes by, where it does not just go on.
func (s *slot) tellTime() {
	now, w, line := s.owner.Time(), s.node.w, *s.time
	if last := len(line) - 1; last < 0 || line[last].showed-line[last].at != now-w.now {
		*s.time = append(line, told{w.now, now})
	}
}

// moment returns when, in the world's time, the owner could first know that it is as late as that.
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
