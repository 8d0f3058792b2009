package scheduler

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Admit picks which of the ready attempts start now, in the order of the queue. room is the free places of each
// agent's window; what Admit takes, it subtracts. The rest keeps waiting. What it gives is the front of ready, which it
// changes; it is pure but for that and room.
func (s *Scheduler) Admit(ready []events.Ready, room map[string]int, now events.Instant) []events.Ready {
	for i := 1; i < len(ready); i++ {
		if !ready[i-1].Before(ready[i]) { // a queue gives them in order, so that they rarely need to be sorted
			slices.SortFunc(ready, order)
			break
		}
	}
	chosen := ready[:0]
	for _, r := range ready {
		if r.NotBefore > now || room[r.Agent] <= 0 {
			continue
		}
		room[r.Agent]--
		chosen = append(chosen, r)
	}
	return chosen
}

func order(a, b events.Ready) int {
	if a.Before(b) {
		return -1
	}
	return 1
}
