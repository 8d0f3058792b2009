package supervisor

import "github.com/sagalog/sagalog/events"

// SetTargets gives the instances of each agent that take work. The shell keeps the map.
func (s *Shell) SetTargets(targets map[string][]Target) {
	s.mail.post(func(now events.Instant) { s.owner.SetTargets(now, targets) })
}
