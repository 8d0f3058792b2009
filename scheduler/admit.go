package scheduler

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Admit picks which of the ready attempts start now, in the order of the queue. room is the free places of each
// agent's window; what Admit takes, it subtracts. The rest keeps waiting. It is pure but for room.
func (s *Scheduler) Admit(ready []events.Ready, room map[string]int, now events.Instant) []events.Ready {
	slices.SortFunc(ready, func(a, b events.Ready) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	var chosen []events.Ready
	for _, r := range ready {
		if r.NotBefore > now || room[r.Agent] <= 0 {
			continue
		}
		room[r.Agent]--
		chosen = append(chosen, r)
	}
	return chosen
}
