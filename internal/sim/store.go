package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// Store is a model of the committed state of one partition: a supervisor.Store in memory, with the indexes that the
// real one keeps.
type Store struct {
	next  int64
	sum   events.Hash
	runs  []events.Run
	parts map[string]events.PartRow
	tasks map[string]row
	last  events.Record

	due       []dated
	ended     []dated
	unplanned []string
	ready     map[string][]events.Ready
}

type row struct {
	encoding []byte
	keys     events.Keys
}

type dated struct {
	at events.Instant
	id string
}

func (a dated) compare(b dated) int {
	return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.id, b.id))
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{parts: map[string]events.PartRow{}, tasks: map[string]row{}, ready: map[string][]events.Ready{}}
}

// Clone returns a copy, as a checkpoint of a store would be.
func (s *Store) Clone() *Store {
	c := *s
	c.runs = slices.Clone(s.runs)
	c.parts, c.tasks, c.ready = maps.Clone(s.parts), maps.Clone(s.tasks), map[string][]events.Ready{}
	c.due, c.ended, c.unplanned = slices.Clone(s.due), slices.Clone(s.ended), slices.Clone(s.unplanned)
	for a, list := range s.ready {
		c.ready[a] = slices.Clone(list)
	}
	return &c
}

// Next returns the offset behind the last committed record.
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

// Apply commits a delta. It refuses one whose Was is not what it holds: a real store would leave index rows behind.
func (s *Store) Apply(d *events.Delta, last events.Record) error {
	if d.Next < s.next { // one at the same offset writes rows that no fact changed
		return fmt.Errorf("a commit up to offset %d after one up to %d", d.Next, s.next)
	}
	if last.Offset != d.Next-1 {
		return fmt.Errorf("the last record of a commit up to %d is the one at %d", d.Next, last.Offset)
	}
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
	s.next, s.sum, s.runs, s.last = d.Next, d.Sum, slices.Clone(d.Runs), last
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
	if had {
		s.unindex(r.ID, &old.keys)
		delete(s.tasks, r.ID)
	}
	if r.Encoding != nil {
		s.tasks[r.ID] = row{r.Encoding, r.Keys}
		s.index(r.ID, &r.Keys)
	}
	return nil
}

func sameKeys(a, b *events.Keys) bool {
	return a.State == b.State && a.Workflow == b.Workflow && a.SubmittedAt == b.SubmittedAt && a.EndedAt == b.EndedAt &&
		a.Due == b.Due && a.Unplanned == b.Unplanned && maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Ready, b.Ready)
}

func readyRow(id string, k events.ReadyKey) events.Ready {
	return events.Ready{Task: id, Path: k.Path, Operation: k.Operation, Agent: k.Agent, Priority: k.Priority, Since: k.Since}
}

func compareReady(a, b events.Ready) int {
	switch {
	case a.Before(b):
		return -1
	case b.Before(a):
		return 1
	}
	return 0
}

func insert[T any](list []T, v T, compare func(a, b T) int) []T {
	i, _ := slices.BinarySearchFunc(list, v, compare)
	return slices.Insert(list, i, v)
}

func remove[T any](list []T, v T, compare func(a, b T) int) []T {
	i, ok := slices.BinarySearchFunc(list, v, compare)
	if !ok {
		return list
	}
	return slices.Delete(list, i, i+1)
}

func (s *Store) index(id string, k *events.Keys) {
	if k.Due != 0 {
		s.due = insert(s.due, dated{k.Due, id}, dated.compare)
	}
	if k.State.Ended() {
		s.ended = insert(s.ended, dated{k.EndedAt, id}, dated.compare)
	}
	if k.Unplanned {
		s.unplanned = insert(s.unplanned, id, strings.Compare)
	}
	for _, r := range k.Ready {
		s.ready[r.Agent] = insert(s.ready[r.Agent], readyRow(id, r), compareReady)
	}
}

func (s *Store) unindex(id string, k *events.Keys) {
	if k.Due != 0 {
		s.due = remove(s.due, dated{k.Due, id}, dated.compare)
	}
	if k.State.Ended() {
		s.ended = remove(s.ended, dated{k.EndedAt, id}, dated.compare)
	}
	if k.Unplanned {
		s.unplanned = remove(s.unplanned, id, strings.Compare)
	}
	for _, r := range k.Ready {
		s.ready[r.Agent] = remove(s.ready[r.Agent], readyRow(id, r), compareReady)
	}
}

// full adds up the hashes of all that is stored.
func (s *Store) full() events.Hash {
	var sum events.Hash
	for id, r := range s.tasks {
		sum = sum.Add(hashOf(events.KindTask, id, r.encoding))
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
	snap := events.Snapshot{Next: s.next, Sum: s.sum, Runs: slices.Clone(s.runs)}
	for _, k := range slices.Sorted(maps.Keys(s.parts)) {
		snap.Parts = append(snap.Parts, s.parts[k])
	}
	return snap, nil
}

// Load implements supervisor.Store.
func (s *Store) Load(id string) (encoding, keys []byte, err error) {
	r, ok := s.tasks[id]
	if !ok {
		return nil, nil, nil
	}
	return r.encoding, events.AppendKeys(nil, &r.keys), nil
}

// Ready implements supervisor.Store.
func (s *Store) Ready(agent string, limit int) ([]events.Ready, error) {
	list := s.ready[agent]
	return slices.Clone(list[:min(limit, len(list))]), nil
}

// Queues implements supervisor.Store.
func (s *Store) Queues() ([]string, error) {
	var agents []string
	for _, a := range slices.Sorted(maps.Keys(s.ready)) {
		if len(s.ready[a]) > 0 {
			agents = append(agents, a)
		}
	}
	return agents, nil
}

// Due implements supervisor.Store.
func (s *Store) Due(at events.Instant, limit int) ([]string, error) {
	return before(s.due, at+1, limit), nil
}

// Ended implements supervisor.Store.
func (s *Store) Ended(at events.Instant, limit int) ([]string, error) {
	return before(s.ended, at, limit), nil
}

func before(list []dated, at events.Instant, limit int) []string {
	var ids []string
	for _, d := range list {
		if d.at >= at || len(ids) == limit {
			break
		}
		ids = append(ids, d.id)
	}
	return ids
}

// Unplanned implements supervisor.Store.
func (s *Store) Unplanned(limit int) ([]string, error) {
	return slices.Clone(s.unplanned[:min(limit, len(s.unplanned))]), nil
}

// Live implements supervisor.Store.
func (s *Store) Live(yield func(id string) error) error {
	for _, d := range slices.Clone(s.due) {
		if err := yield(d.id); err != nil {
			return err
		}
	}
	return nil
}

var errRefused = errors.New("the broker refuses the record for good")
var errBroker = errors.New("the broker does not answer")
