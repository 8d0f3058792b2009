package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// Store is a model of the committed state of one partition: a supervisor.Store in memory. It has no indexes, which the
// real one keeps: a query looks at every task.
type Store struct {
	next    int64
	sum     events.Hash
	runs    []events.Run
	carries []events.CarryOffset
	parts   map[string]events.PartRow
	tasks   map[string]row
	// earliest is the earliest time of each kind of any task, or nil if it is not known since a commit. Owners look often, and find something rarely.
	earliest *[timeKinds]events.Instant
}

// timeKind is a time of a task by which owners look for it.
type timeKind int

const (
	byDue     timeKind = 0
	byWake    timeKind = 1
	byEnd     timeKind = 2 // of tasks that the settings let be forgotten
	byForget  timeKind = 3 // of tasks that their workflow lets be forgotten
	timeKinds          = 4
)

// of returns the time of the task with these keys, 0 if it has none.
func (k timeKind) of(keys *events.Keys) events.Instant {
	end := keys.EndedAt
	if keys.Forget != 0 {
		end = 0
	}
	return [timeKinds]events.Instant{keys.Due, keys.Wake, end, keys.Forget}[k]
}

type row struct {
	encoding []byte
	keys     events.Keys
	// others are the other rows of the task, by kind and ID. A commit replaces the map, since clones of the store share it.
	others map[string]events.PartRow
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{parts: map[string]events.PartRow{}, tasks: map[string]row{}}
}

// Clone returns a copy, as a checkpoint of a store would be.
func (s *Store) Clone() *Store {
	c := *s
	c.runs, c.parts, c.tasks = slices.Clone(s.runs), maps.Clone(s.parts), maps.Clone(s.tasks)
	return &c
}

// Next returns the offset after the last committed record.
func (s *Store) Next() int64 { return s.next }

// Sum returns the committed state hash.
func (s *Store) Sum() events.Hash { return s.sum }

// Len returns the number of tasks.
func (s *Store) Len() int { return len(s.tasks) }

// Keys returns the keys of a task's row.
func (s *Store) Keys(id string) (events.Keys, bool) {
	r, ok := s.tasks[id]
	return r.keys, ok
}

// Apply commits a delta. It refuses one whose Was differs from its rows, because a real store would then leave index
// rows behind.
func (s *Store) Apply(d *events.Delta, last events.Record) error {
	if d.Next < s.next { // a commit at the same offset writes rows that no fact changed
		return fmt.Errorf("a commit up to offset %d after one up to %d", d.Next, s.next)
	}
	if last.Offset != d.Next-1 {
		return fmt.Errorf("a commit up to offset %d ends with the record at offset %d", d.Next, last.Offset)
	}
	s.earliest = nil
	for i := range d.Tasks {
		if err := s.applyTask(&d.Tasks[i]); err != nil {
			return err
		}
	}
	for _, p := range d.Parts {
		k := string(p.Kind) + "\x00" + p.ID
		if p.Encoding == nil {
			delete(s.parts, k)
		} else {
			s.parts[k] = p
		}
	}
	s.next, s.sum, s.runs, s.carries = d.Next, d.Sum, slices.Clone(d.Runs), d.Carries
	return nil
}

func (s *Store) applyTask(r *events.TaskRow) error {
	old, had := s.tasks[r.ID]
	switch {
	case had && r.Was == nil:
		return fmt.Errorf("task %q: Was is absent, the store holds %+v", r.ID, old.keys)
	case !had && r.Was != nil:
		return fmt.Errorf("task %q: Was is %+v, the store holds nothing", r.ID, *r.Was)
	case had && !sameKeys(&old.keys, r.Was):
		return fmt.Errorf("task %q: Was is %+v, the store holds %+v", r.ID, *r.Was, old.keys)
	}
	others := old.others
	if len(r.Rows) > 0 {
		others = maps.Clone(others)
	}
	for _, o := range r.Rows {
		k := string(o.Kind) + "\x00" + o.ID
		if _, ok := others[k]; o.Encoding == nil && !ok {
			return fmt.Errorf("task %q: the %s row %q is removed, the store does not hold it", r.ID, o.Kind, o.ID)
		}
		if o.Encoding == nil {
			delete(others, k)
			continue
		}
		if others == nil {
			others = map[string]events.PartRow{}
		}
		others[k] = o
	}
	if len(others) != r.Others {
		return fmt.Errorf("task %q: the store holds %d other rows, there are %d", r.ID, len(others), r.Others)
	}
	if r.Encoding == nil {
		delete(s.tasks, r.ID)
	} else {
		s.tasks[r.ID] = row{r.Encoding, r.Keys, others}
	}
	return nil
}

func sameKeys(a, b *events.Keys) bool {
	return a.State == b.State && a.Workflow == b.Workflow && a.SubmittedAt == b.SubmittedAt && a.EndedAt == b.EndedAt && a.Forget == b.Forget &&
		a.Due == b.Due && a.Wake == b.Wake && a.Unplanned == b.Unplanned && maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Ready, b.Ready) && a.FairBy == b.FairBy && slices.Equal(a.Waits, b.Waits)
}

// full adds up the hashes of everything stored.
func (s *Store) full() events.Hash {
	var sum events.Hash
	for id, r := range s.tasks {
		sum = sum.Add(hashOf(events.KindTask, id, r.encoding))
		for _, o := range r.others {
			sum = sum.Add(hashOf(o.Kind, o.ID, o.Encoding))
		}
	}
	for _, p := range s.parts {
		sum = sum.Add(hashOf(p.Kind, p.ID, p.Encoding))
	}
	return sum
}

// passed returns the resume points.
func (s *Store) passed() map[events.Input]events.Passed {
	var p events.PartitionState
	if row, ok := s.parts[string(events.KindPartition)+"\x00"]; !ok || json.Unmarshal(row.Encoding, &p) != nil {
		return nil
	}
	return p.Inputs
}

// Snapshot implements supervisor.Store.
func (s *Store) Snapshot() (events.Snapshot, error) {
	snap := events.Snapshot{Next: s.next, Sum: s.sum, Runs: slices.Clone(s.runs), Carries: s.carries}
	for _, k := range slices.Sorted(maps.Keys(s.parts)) {
		snap.Parts = append(snap.Parts, s.parts[k])
	}
	snap.Load = func(k events.Kind, id string) ([]byte, error) {
		row, ok := s.parts[string(k)+"\x00"+id]
		if !ok {
			return nil, fmt.Errorf("there is no row of %s %s", k, id)
		}
		return row.Encoding, nil
	}
	return snap, nil
}

// Load implements supervisor.Store.
func (s *Store) Load(id string) (events.StoredTask, error) {
	r, ok := s.tasks[id]
	if !ok {
		return events.StoredTask{}, nil
	}
	return events.StoredTask{Encoding: r.encoding, Keys: events.AppendKeys(nil, &r.keys), Rows: slices.Collect(maps.Values(r.others))}, nil
}

// Ready implements supervisor.Store.
func (s *Store) Ready(line events.Line, limit int) ([]events.Ready, error) {
	var list []events.Ready
	for id, t := range s.tasks {
		for _, k := range t.keys.Ready {
			if k.Queue() == line.Queue && k.Operation == line.Operation && t.keys.FairBy == line.FairBy {
				list = append(list, events.Ready{Task: id, Path: k.Path, Operation: k.Operation, Agent: k.Agent, Function: k.Function, Priority: k.Priority, FairBy: line.FairBy, Since: k.Since})
			}
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
func (s *Store) FairKeys(line events.Line, limit int) ([]string, error) {
	keys := map[string]bool{}
	for _, t := range s.tasks {
		for _, k := range t.keys.Ready {
			if k.Queue() == line.Queue && k.Operation == line.Operation && t.keys.FairBy > line.FairBy {
				keys[t.keys.FairBy] = true
			}
		}
	}
	list := slices.Sorted(maps.Keys(keys))
	return list[:min(limit, len(list))], nil
}

// Queues implements supervisor.Store.
func (s *Store) Queues() ([]string, error) {
	queues := map[string]bool{}
	for _, t := range s.tasks {
		for _, k := range t.keys.Ready {
			queues[k.Queue()] = true
		}
	}
	return slices.Sorted(maps.Keys(queues)), nil
}

// Due implements supervisor.Store.
func (s *Store) Due(at events.Instant, limit int) ([]string, error) {
	return s.before(at+1, limit, byDue), nil
}

// Waking implements supervisor.Store.
func (s *Store) Waking(at events.Instant, limit int) ([]string, error) {
	return s.before(at+1, limit, byWake), nil
}

// Ended implements supervisor.Store.
func (s *Store) Ended(at events.Instant, limit int) ([]string, error) {
	return s.before(at, limit, byEnd), nil
}

// Forgettable implements supervisor.Store.
func (s *Store) Forgettable(at events.Instant, limit int) ([]string, error) {
	return s.before(at, limit, byForget), nil
}

// before lists the tasks whose time of one kind is before at, earliest first.
func (s *Store) before(at events.Instant, limit int, kind timeKind) []string {
	if s.first(kind) >= at {
		return nil
	}
	type timed struct {
		id string
		at events.Instant
	}
	var list []timed
	for id, t := range s.tasks {
		if x := kind.of(&t.keys); x != 0 && x < at {
			list = append(list, timed{id, x})
		}
	}
	slices.SortFunc(list, func(a, b timed) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.id, b.id)) })
	var ids []string
	for _, x := range list[:min(limit, len(list))] {
		ids = append(ids, x.id)
	}
	return ids
}

// first returns the earliest time of a kind.
func (s *Store) first(kind timeKind) events.Instant {
	if s.earliest == nil {
		s.earliest = &[timeKinds]events.Instant{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64}
		for _, t := range s.tasks {
			for k := range timeKind(timeKinds) {
				if x := k.of(&t.keys); x != 0 {
					s.earliest[k] = min(s.earliest[k], x)
				}
			}
		}
	}
	return s.earliest[kind]
}

// Unplanned implements supervisor.Store.
func (s *Store) Unplanned(limit int) ([]string, error) {
	var ids []string
	for id, t := range s.tasks {
		if t.keys.Unplanned {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(limit, len(ids))], nil
}

// Unended implements supervisor.Store.
func (s *Store) Unended(after string, limit int) ([]string, error) {
	var ids []string
	for id, t := range s.tasks {
		if id > after && !t.keys.State.Ended() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(limit, len(ids))], nil
}

// Tasks implements supervisor.Store.
func (s *Store) Tasks(after string, limit int) ([]string, error) {
	var ids []string
	for id := range s.tasks {
		if id > after {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(limit, len(ids))], nil
}

// Live implements supervisor.Store.
func (s *Store) Live(yield func(id string) error) error {
	for _, id := range s.before(math.MaxInt64, len(s.tasks), byDue) {
		if err := yield(id); err != nil {
			return err
		}
	}
	return nil
}

var errRefused = errors.New("the broker refuses the record for good")
var errBroker = errors.New("the broker does not answer")
