package scheduler

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Admit picks the ready attempts that start now, in the order of the queue. room holds the free places of each agent's window,
// and Admit subtracts the places that it takes. The result is the front of ready, which Admit reorders. It changes nothing else.
func (s *Scheduler) Admit(ready []events.Ready, room map[string]int, now events.Instant) []events.Ready {
	for i := 1; i < len(ready); i++ {
		if !ready[i-1].Before(ready[i]) { // a queue gives them in order, so they rarely need sorting
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
