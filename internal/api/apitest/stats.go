package apitest

import (
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/proxy"
)

// Stats implements api.Stats: in the first minute of the time that is asked, a task was accepted and processed within 40 ms, and one was parked.
func (e *Engine) Stats(q api.StatsQuery) ([]api.StatRow, events.Instant) {
	begun := events.At(time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC))
	if !q.Selects("order", "") {
		return nil, begun
	}
	c := api.StatCounts{Started: 2, Completed: 1, Parked: 1}
	c.Took(40 * time.Millisecond)
	c.Waited(3 * time.Millisecond)
	return []api.StatRow{{StatKey: api.StatKey{At: events.At(q.Since), Workflow: "order"}, StatCounts: c}}, begun
}

// Others implements api.Stats.
func (e *Engine) Others() []proxy.Route { return nil }

// Others implements api.Stats: the nodes that have partitions.
func (s *Share) Others() []proxy.Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[proxy.Route]bool{}
	var list []proxy.Route
	for _, to := range s.routes {
		if to.Known() && !to.Here && !seen[to] {
			seen[to] = true
			list = append(list, to)
		}
	}
	return list
}
