package events

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
)

// History says that the record at Offset is a fact about Task.
type History struct {
	Task   string
	Offset int64
}

// ReadyKey is a step that waits only for a place in its agent's window: a row of the queue.
type ReadyKey struct {
	Agent     string    `json:"agent"`
	Path      string    `json:"path"`
	Operation Operation `json:"operation"`
	// Since orders the steps of equal priority: the time at which the task was accepted.
	Since Instant `json:"since"`
	// Priority is the task's; a higher one runs first.
	Priority int `json:"priority,omitzero"`
}

// Keys are what a store's indexes need to know of a task. They stand beside its encoding and are no part of the
// state hash.
type Keys struct {
	State       TaskState         `json:"state"`
	Workflow    string            `json:"workflow"`
	SubmittedAt Instant           `json:"submitted_at"`
	EndedAt     Instant           `json:"ended_at,omitzero"`
	Labels      map[string]string `json:"labels,omitempty"`
	// Due is when the owner must look at the task next.
	Due   Instant    `json:"due,omitzero"`
	Ready []ReadyKey `json:"ready,omitempty"`
	// Unplanned marks a live task that was folded from the log and not by its owner's decision: a follow-up may be
	// due, so a new owner plans it.
	Unplanned bool `json:"unplanned,omitzero"`
}

// Agenda tells Flush what an owner knows of a task beside its state. Without it, a live task is unplanned.
type Agenda func(t *Task) (due Instant, ready []ReadyKey)

// TaskRow is one changed task in its canonical encoding. A nil Encoding means that the task was forgotten.
type TaskRow struct {
	ID       string
	Encoding []byte
	Keys     Keys
	// Was are the keys of the row that this one replaces; nil if there is none.
	Was *Keys
}

// PartRow is a changed entity of another kind. A nil Encoding means that it is gone.
type PartRow struct {
	Kind     Kind
	ID       string
	Encoding []byte
}

// Delta is what the folding of some records changed: what a store writes in one batch with the offset (INV3).
type Delta struct {
	Partition int32
	// Next is the offset of the first record that is not part of it.
	Next    int64
	Sum     Hash
	Runs    []Run
	Tasks   []TaskRow
	Parts   []PartRow
	History []History
}

// Snapshot is what State needs to go on beside the tasks: the parts in their encodings, the offset and the runs.
type Snapshot struct {
	Next  int64
	Sum   Hash
	Runs  []Run
	Parts []PartRow
}

// Flush encodes what changed since the last Flush, brings Sum up to date, and returns the changes.
func (s *State) Flush(agenda Agenda) (*Delta, error) {
	d := &Delta{Partition: s.Partition.Partition, Next: s.Next}
	if err := s.flushTasks(d, agenda); err != nil {
		return nil, err
	}
	s.touchPart(KindPartition, "")
	if err := s.flushParts(d); err != nil {
		return nil, err
	}
	d.Sum = s.sum
	d.Runs = append([]Run(nil), s.runs...)
	d.History, s.history = s.history, nil
	return d, nil
}

func (s *State) flushTasks(d *Delta, agenda Agenda) error {
	ids := make([]string, 0, len(s.dirtyTasks))
	for id := range s.dirtyTasks {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	for _, id := range ids {
		t, ok := s.tasks[id]
		if !ok { // touched, and not in memory: a missing encoding would have the store forget it
			var err error
			if t, err = s.Task(id); err != nil {
				return err
			}
			if t == nil {
				continue
			}
		}
		row := TaskRow{ID: id, Was: s.swept[id]}
		if t != nil {
			if t.keys != nil {
				row.Was = t.keys
			}
			b, err := Marshal(t)
			if err != nil {
				return err
			}
			h := hashEntity(KindTask, id, b)
			s.sum = s.sum.Sub(t.hash).Add(h)
			t.hash = h
			keys := keysOf(t, agenda) // not &row.Keys, which would keep the encoding in memory
			row.Encoding, row.Keys, t.keys = b, keys, &keys
		}
		d.Tasks = append(d.Tasks, row)
	}
	clear(s.dirtyTasks)
	clear(s.swept)
	return nil
}

func keysOf(t *Task, agenda Agenda) Keys {
	k := Keys{State: t.State, Workflow: t.Workflow, SubmittedAt: t.SubmittedAt, EndedAt: t.EndedAt, Labels: t.Labels}
	switch {
	case t.State.Ended():
	case agenda == nil:
		k.Due, k.Unplanned = t.Due(), true
	default:
		k.Due, k.Ready = agenda(t)
	}
	return k
}

func (s *State) flushParts(d *Delta) error {
	keys := make([]string, 0, len(s.dirtyParts))
	for k := range s.dirtyParts {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		p := s.dirtyParts[k]
		row := PartRow{Kind: p.kind, ID: p.id}
		if v := s.part(p); v != nil {
			b, err := Marshal(v)
			if err != nil {
				return err
			}
			row.Encoding = b
		}
		s.count(k, row)
		d.Parts = append(d.Parts, row)
	}
	clear(s.dirtyParts)
	return nil
}

// count replaces a part's hash in the sum.
func (s *State) count(key string, row PartRow) {
	s.sum = s.sum.Sub(s.parts[key])
	delete(s.parts, key)
	if row.Encoding != nil {
		h := hashEntity(row.Kind, row.ID, row.Encoding)
		s.parts[key] = h
		s.sum = s.sum.Add(h)
	}
}

func (s *State) part(p part) any {
	switch p.kind {
	case KindPartition:
		return &s.Partition
	case KindHeld:
		task, request, _ := strings.Cut(p.id, "\x00") // no task ID has a NUL
		if h := s.held[task][request]; h != nil {
			return h
		}
	case KindDefinition:
		if d := s.definitions[p.id]; d != nil {
			return d
		}
	}
	return nil
}

// OpenState returns the state that a snapshot and the loader hold.
func OpenState(partition int32, snap Snapshot, load Loader) (*State, error) {
	s := NewState(partition, load)
	s.Next, s.sum, s.runs = snap.Next, snap.Sum, append([]Run(nil), snap.Runs...)
	for _, row := range snap.Parts {
		if err := s.restore(row); err != nil {
			return nil, fmt.Errorf("read the %s %q of partition %d: %w", row.Kind, row.ID, partition, err)
		}
		s.parts[string(row.Kind)+"\x00"+row.ID] = hashEntity(row.Kind, row.ID, row.Encoding)
	}
	if p := s.Partition.Partition; p != partition {
		return nil, fmt.Errorf("%w: the snapshot is of partition %d, not %d", ErrImpossible, p, partition)
	}
	// A newer version may have folded past a barrier before this one was put back in its place.
	return s, s.barrier(&VersionBarrier{Reader: s.Partition.Reader})
}

func (s *State) restore(row PartRow) error {
	switch row.Kind {
	case KindPartition:
		return json.Unmarshal(row.Encoding, &s.Partition)
	case KindHeld:
		h := new(HeldRequest)
		if err := json.Unmarshal(row.Encoding, h); err != nil {
			return err
		}
		s.putHeld(h)
		return nil
	case KindDefinition:
		d := new(Definition)
		s.definitions[row.ID] = d
		return json.Unmarshal(row.Encoding, d)
	default:
		return fmt.Errorf("%w: entity kind %q", ErrUnknownFact, row.Kind)
	}
}
