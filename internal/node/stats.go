package node

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/proxy"
)

const (
	// statMinutes is how long a node remembers: with statPairs it is at most about 40 MB, and usually below one.
	statMinutes = 6 * 60
	// statPairs bounds the workflows and their steps that are counted by name; all others are counted as otherLabel.
	statPairs = 200
)

// stats counts per minute what this node's owners decided since the node started. A restart loses the counts: use Prometheus for what must
// be kept.
type stats struct {
	begun    events.Instant
	liveness *liveness

	// mu guards pairs. Owners lock it for each of their facts, for less than a microsecond, so readers hold it for one pair at a time.
	mu    sync.Mutex
	pairs map[statPair]*[statMinutes]*statMinute
}

// statPair is a workflow and a step of it, or no step for its tasks.
type statPair struct{ workflow, step string }

// statMinute is what happened in one minute.
type statMinute struct {
	minute int64
	api.StatCounts
}

func newStats(l *liveness, now time.Time) *stats {
	return &stats{begun: events.At(now), liveness: l, pairs: map[statPair]*[statMinutes]*statMinute{}}
}

// of returns the counts of a pair in the minute of an instant, nil if that minute is no longer kept. It is called with mu held.
func (s *stats) of(p statPair, at events.Instant) *api.StatCounts {
	ring := s.pairs[p]
	if ring == nil {
		if len(s.pairs) >= statPairs {
			if p.workflow = otherLabel; p.step != "" {
				p.step = otherLabel
			}
		}
		if ring = s.pairs[p]; ring == nil {
			ring = new([statMinutes]*statMinute)
			s.pairs[p] = ring
		}
	}
	minute := max(0, at.Time().Unix()/60)
	cell := &ring[minute%statMinutes]
	switch {
	case *cell == nil || (*cell).minute < minute:
		*cell = &statMinute{minute: minute}
	case (*cell).minute > minute:
		return nil
	}
	return &(*cell).StatCounts
}

// count counts a durable fact. t is its task as it is now, nil if it has none or is gone.
func (s *stats) count(t *events.Task, f *events.Fact) {
	if t == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tasks := func() *api.StatCounts { return s.of(statPair{workflow: t.Workflow}, f.Time) }
	switch b := f.Body.(type) {
	case *events.Submitted:
		if c := tasks(); c != nil {
			c.Started++
		}
	case *events.StepStarted:
		s.started(t, f, b)
	case *events.TaskProcessed:
		if c := tasks(); c != nil {
			c.Completed++
			c.Took(f.Time.Sub(t.SubmittedAt))
		}
	case *events.TaskUndone:
		if c := tasks(); c != nil {
			c.Undone++
			c.Took(f.Time.Sub(t.SubmittedAt))
		}
	case *events.TaskTerminated:
		if c := tasks(); c != nil {
			c.Failed++
		}
	case *events.TaskParked:
		if c := tasks(); c != nil {
			c.Parked++
		}
	case *events.DeadlinePassed:
		if c := tasks(); c != nil {
			c.TimedOut++
		}
	default:
		s.ended(t, f)
	}
}

func (s *stats) started(t *events.Task, f *events.Fact, b *events.StepStarted) {
	waited := f.Time.Sub(max(readySince(t, b.Step, f.Time), b.ReadyAt))
	if c := s.of(statPair{t.Workflow, plain(b.Step)}, f.Time); c != nil {
		c.Started++
		c.Waited(waited)
	}
	if b.Attempt == 1 && first(t) == b.Step {
		if c := s.of(statPair{workflow: t.Workflow}, f.Time); c != nil {
			c.Waited(f.Time.Sub(t.SubmittedAt))
		}
	}
}

// ended counts how an attempt ended.
func (s *stats) ended(t *events.Task, f *events.Fact) {
	var path string
	var number *int64
	var c api.StatCounts
	attempt := 0
	switch b := f.Body.(type) {
	case *events.StepCompleted:
		path, attempt, number = b.Step, b.Attempt, &c.Completed
	case *events.StepFailed:
		path, attempt, number = b.Step, b.Attempt, &c.Failed
	case *events.Compensated:
		path, attempt, number = b.Step, b.Attempt, &c.Undone
	case *events.Timeout:
		if path, attempt = b.Step, b.Attempt; b.Operation == events.Do {
			number = &c.TimedOut
		}
	}
	if attempt == 0 || number == nil {
		return
	}
	*number = 1
	if x := t.Step(path); x != nil && number != &c.Undone && x.Attempt == attempt && x.StartedAt != 0 {
		c.Took(f.Time.Sub(x.StartedAt))
	}
	if of := s.of(statPair{t.Workflow, plain(path)}, f.Time); of != nil {
		of.Add(&c)
	}
}

// plain is the path of a step without its index.
func plain(path string) string {
	path, _, _ = strings.Cut(path, "[")
	return path
}

// Stats implements api.Stats.
func (s *stats) Stats(q api.StatsQuery) ([]api.StatRow, events.Instant) {
	rows := map[api.StatKey]*api.StatCounts{}
	for _, pair := range s.selected(q) {
		s.add(rows, pair, q)
	}
	list := make([]api.StatRow, 0, len(rows))
	for key, c := range rows {
		list = append(list, api.StatRow{StatKey: key, StatCounts: *c})
	}
	return list, max(s.begun, events.At(time.Now().Add(-statMinutes*time.Minute)))
}

func (s *stats) selected(q api.StatsQuery) (list []statPair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pair := range s.pairs {
		if q.Selects(pair.workflow, pair.step) {
			list = append(list, pair)
		}
	}
	return list
}

// add adds the minutes of one pair. Between two pairs the owners go on: all pairs together take a tenth of a second and more.
func (s *stats) add(rows map[api.StatKey]*api.StatCounts, pair statPair, q api.StatsQuery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cell := range s.pairs[pair] {
		if cell == nil {
			continue
		}
		at := time.Unix(cell.minute*60, 0)
		if at.Before(q.Since) || !at.Before(q.Until) {
			continue
		}
		key := api.StatKey{At: events.At(at.Truncate(q.Every)), Workflow: pair.workflow, Step: pair.step}
		if rows[key] == nil {
			rows[key] = new(api.StatCounts)
		}
		rows[key].Add(&cell.StatCounts)
	}
}

// Others implements api.Stats.
func (s *stats) Others() []proxy.Route {
	s.liveness.mu.Lock()
	defer s.liveness.mu.Unlock()
	var list []proxy.Route
	for _, b := range s.liveness.seen {
		if b.Kind == events.PresenceNode && b.Instance != s.liveness.self && time.Since(b.at) <= silentAfter && b.HTTP != "" {
			list = append(list, proxy.Route{Node: b.Instance, Addr: b.HTTP})
		}
	}
	slices.SortFunc(list, func(a, b proxy.Route) int { return cmp.Compare(a.Node, b.Node) })
	return list
}
