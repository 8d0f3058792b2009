package virtualowner

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// store is a Store in memory, for one task.
type store struct {
	next  int64
	sum   events.Hash
	runs  []events.Run
	parts map[string]events.PartRow
	// task is the row of the task, nil before it is accepted; rows are its other rows.
	task *events.TaskRow
	rows map[string]events.PartRow
}

func newStore() *store {
	return &store{parts: map[string]events.PartRow{}, rows: map[string]events.PartRow{}}
}

// Commit implements Store.
func (s *store) Commit(d *events.Delta) error {
	for i := range d.Tasks {
		row := d.Tasks[i]
		keep(s.rows, row.Rows)
		if s.task = &row; row.Encoding == nil {
			s.task = nil
		}
	}
	keep(s.parts, d.Parts)
	s.next, s.sum, s.runs = d.Next, d.Sum, slices.Clone(d.Runs)
	return nil
}

func partKey(k events.Kind, id string) string { return string(k) + "\x00" + id }

func keep(into map[string]events.PartRow, rows []events.PartRow) {
	for _, r := range rows {
		if r.Encoding == nil {
			delete(into, partKey(r.Kind, r.ID))
		} else {
			into[partKey(r.Kind, r.ID)] = r
		}
	}
}

// Snapshot implements supervisor.Store.
func (s *store) Snapshot() (events.Snapshot, error) {
	snap := events.Snapshot{Next: s.next, Sum: s.sum, Runs: slices.Clone(s.runs)}
	for _, k := range slices.Sorted(maps.Keys(s.parts)) {
		snap.Parts = append(snap.Parts, s.parts[k])
	}
	snap.Load = func(k events.Kind, id string) ([]byte, error) {
		row, ok := s.parts[partKey(k, id)]
		if !ok {
			return nil, fmt.Errorf("there is no row of %s %s", k, id)
		}
		return row.Encoding, nil
	}
	return snap, nil
}

// Load implements supervisor.Store.
func (s *store) Load(id string) (events.StoredTask, error) {
	if s.task == nil || s.task.ID != id {
		return events.StoredTask{}, nil
	}
	return events.StoredTask{Encoding: s.task.Encoding, Keys: events.AppendKeys(nil, &s.task.Keys), Rows: slices.Collect(maps.Values(s.rows))}, nil
}

// Ready implements supervisor.Store.
func (s *store) Ready(line events.Line, limit int) (list []events.Ready, err error) {
	if s.task == nil {
		return nil, nil
	}
	for _, k := range s.task.Keys.Ready {
		if k.Queue() == line.Queue && k.Operation == line.Operation && s.task.Keys.FairBy == line.FairBy {
			list = append(list, events.Ready{Task: s.task.ID, Path: k.Path, Operation: k.Operation, Agent: k.Agent, Function: k.Function, Priority: k.Priority, FairBy: line.FairBy, Since: k.Since})
		}
	}
	slices.SortFunc(list, func(a, b events.Ready) int {
		switch {
		case a.Before(b):
			return -1
		case b.Before(a):
			return 1
		}
		return 0
	})
	return list[:min(limit, len(list))], nil
}

// FairKeys implements supervisor.Store.
func (s *store) FairKeys(line events.Line, _ int) ([]string, error) {
	if s.task == nil || s.task.Keys.FairBy <= line.FairBy {
		return nil, nil
	}
	return []string{s.task.Keys.FairBy}, nil
}

// Queues implements supervisor.Store.
func (s *store) Queues() (queues []string, err error) {
	if s.task == nil {
		return nil, nil
	}
	for _, k := range s.task.Keys.Ready {
		queues = append(queues, k.Queue())
	}
	slices.Sort(queues)
	return slices.Compact(queues), nil
}

// Due implements supervisor.Store.
func (s *store) Due(at events.Instant, _ int) ([]string, error) {
	return s.where(func(k *events.Keys) bool { return k.Due != 0 && k.Due <= at })
}

// Waking implements supervisor.Store.
func (s *store) Waking(at events.Instant, _ int) ([]string, error) {
	return s.where(func(k *events.Keys) bool { return k.Wake != 0 && k.Wake <= at })
}

// Ended implements supervisor.Store.
func (s *store) Ended(before events.Instant, _ int) ([]string, error) {
	return s.where(func(k *events.Keys) bool { return k.Forget == 0 && k.EndedAt != 0 && k.EndedAt < before })
}

// Forgettable implements supervisor.Store.
func (s *store) Forgettable(before events.Instant, _ int) ([]string, error) {
	return s.where(func(k *events.Keys) bool { return k.Forget != 0 && k.Forget < before })
}

// Unplanned implements supervisor.Store.
func (s *store) Unplanned(int) ([]string, error) {
	return s.where(func(k *events.Keys) bool { return k.Unplanned })
}

// Unended implements supervisor.Store.
func (s *store) Unended(after string, _ int) ([]string, error) {
	return s.where(func(k *events.Keys) bool { return s.task.ID > after && !k.State.Ended() })
}

// Tasks implements supervisor.Store.
func (s *store) Tasks(after string, _ int) ([]string, error) {
	return s.where(func(*events.Keys) bool { return s.task.ID > after })
}

// Live implements supervisor.Store.
func (s *store) Live(yield func(id string) error) error {
	ids, _ := s.where(func(k *events.Keys) bool { return k.Due != 0 })
	for _, id := range ids {
		if err := yield(id); err != nil {
			return err
		}
	}
	return nil
}

// where returns the task if its keys are as asked.
func (s *store) where(is func(k *events.Keys) bool) ([]string, error) {
	if s.task == nil || !is(&s.task.Keys) {
		return nil, nil
	}
	return []string{s.task.ID}, nil
}
