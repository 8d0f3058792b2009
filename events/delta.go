package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// History says that the record at Offset is a fact about Task.
type History struct {
	Task   string
	Offset int64
}

// Rejection says that the record at Fact rejected the input at Offset of the same partition, and when.
type Rejection struct {
	Input  Input
	Offset int64
	Fact   int64
	At     Instant
}

// Agenda supplies Flush with the owner's plan for a task, which is not part of its state. Without an Agenda, a live task counts
// as unplanned.
type Agenda func(t *Task) Planned

// Planned is the plan for a live task. Its members are those of [Keys].
type Planned struct {
	Due, Wake Instant
	Ready     []ReadyKey
	Waits     []WaitCount
}

// TaskRow is one changed task: its head in its canonical encoding, and those of its other rows that changed. A nil Encoding means that
// the task was forgotten; Rows then removes all of its other rows.
type TaskRow struct {
	ID       string
	Encoding []byte
	Keys     Keys
	// Was holds the keys of the row that this one replaces, or nil if it replaces none.
	Was *Keys
	// Another says that this one is of an earlier task with the same ID, which was swept.
	Another bool
	// Rows are the changed rows besides the head. A later one replaces an earlier one of the same kind and ID.
	Rows []PartRow
	// Others is how many rows the task now has besides the head, and Bytes the total size of the encodings.
	Others, Bytes int
}

// PartRow is a changed entity other than the head of a task. A nil Encoding means that the entity was removed.
type PartRow struct {
	Kind     Kind
	ID       string
	Encoding []byte
}

// Delta holds the changes from folding some records. A store writes it in one batch with the offset (INV3).
type Delta struct {
	Partition int32
	// Next is the offset of the first record after the delta.
	Next    int64
	Sum     Hash
	Runs    []Run
	Carries []CarryOffset
	Tasks   []TaskRow
	Parts   []PartRow
	History []History
	// Rejected holds the rejections in the order of their facts, and Time is the partition's time after the delta. Neither
	// is part of the state.
	Rejected []Rejection
	Time     Instant
}

// Snapshot holds what State needs to continue, apart from the tasks: the encoded parts, the offset and the runs.
type Snapshot struct {
	Next int64
	Sum  Hash
	Runs []Run
	// Carries are where the carries begin that are under way or remembered.
	Carries []CarryOffset
	Parts   []PartRow
	// Load reads the encoding of a part that the store holds now. The bodies of definitions then stay there. It may be nil.
	Load func(k Kind, id string) ([]byte, error)
}

// Flush encodes what changed since the last Flush, brings Sum up to date, and returns the changes. After Apply has refused a
// fact, nothing more may be stored, so Flush returns that error.
func (s *State) Flush(agenda Agenda) (*Delta, error) {
	if s.refused != nil {
		return nil, s.refused
	}
	d := &Delta{Partition: s.Partition.Partition, Next: s.Next}
	if err := s.flushTasks(d, agenda); err != nil {
		return nil, err
	}
	s.touchPart(KindPartition, "")
	if err := s.flushParts(d); err != nil {
		return nil, err
	}
	d.Sum = s.sum
	d.Runs, d.Carries = append([]Run(nil), s.runs...), s.carries
	d.History, s.history, s.lastHistory = s.history, nil, len(s.history)
	d.Rejected, s.rejected, d.Time = s.rejected, nil, s.Partition.Time
	return d, nil
}

func (s *State) flushTasks(d *Delta, agenda Agenda) error {
	ids := s.changedTasks()
	w := newTaskWriter(len(ids))
	if len(ids) > 0 {
		d.Tasks = make([]TaskRow, 0, len(ids))
	}
	var kept keeper
	for i, id := range ids {
		t, ok := s.tasks[id]
		if !ok { // touched, but not in memory: a missing encoding would make the store forget it
			var err error
			if t, err = s.Task(id); err != nil {
				return err
			}
			if t == nil {
				continue
			}
		}
		gone := s.swept[id]
		row := TaskRow{ID: id, Was: gone.keys, Rows: gone.rows}
		if t != nil {
			row.Another = gone.keys != nil && t.keys == nil
			if t.keys != nil {
				row.Was = t.keys
			}
			if err := w.write(t); err != nil {
				return err
			}
			s.sum = s.sum.Sub(t.hash).Add(w.sum)
			t.hash, t.dirty = w.sum, false
			keys := keysOf(t, agenda) // not &row.Keys, which would keep the encoding in memory
			row.Encoding, row.Keys, t.keys = kept.keep(w.head.B[w.from:], len(ids)-i), keys, &keys
			row.Others, row.Bytes = w.rows.total(), w.bytes
			row.Rows = w.flushed(t, row.Rows, &kept)
		}
		d.Tasks = append(d.Tasks, row)
	}
	clear(s.dirtyTasks)
	s.dirtyTasks = s.dirtyTasks[:0]
	clear(s.dirtyOthers)
	clear(s.swept)
	return nil
}

// keeper allocates the encodings of a Delta in a few pieces of memory, since they have the same lifetime.
type keeper struct{ piece []byte }

// keptBytes limits the size of a piece, because the last one may stay half empty.
const keptBytes = 32 << 10

// keep returns a copy of b. many is how many encodings of about this size are expected, including this one.
func (k *keeper) keep(b []byte, many int) []byte {
	if len(b) > cap(k.piece)-len(k.piece) {
		k.piece = make([]byte, 0, max(len(b), min(keptBytes, len(b)*many)))
	}
	from := len(k.piece)
	k.piece = append(k.piece, b...)
	return k.piece[from:len(k.piece):len(k.piece)]
}

func keysOf(t *Task, agenda Agenda) Keys {
	k := Keys{State: t.State, Workflow: t.Workflow, SubmittedAt: t.SubmittedAt, EndedAt: t.EndedAt, Labels: t.Labels}
	switch {
	case t.State.Ended():
		if t.RememberFor > 0 {
			k.Forget = min(forgetAt(t), lastInstant)
		}
	case agenda == nil:
		k.Due, k.Unplanned = t.Due(), true
	default:
		p := agenda(t)
		k.Due, k.Wake, k.Ready, k.Waits = p.Due, p.Wake, p.Ready, p.Waits
		if len(k.Ready) > 0 {
			k.FairBy = t.FairBy
		}
	}
	return k
}

// partBytes is enough for the encoding of the partition's own entity, and of most held requests.
const partBytes = 768

func (s *State) flushParts(d *Delta) error {
	e := entityWriter{jsontext.Writer{B: make([]byte, 0, partBytes)}}
	for _, p := range s.changedParts() {
		row := PartRow{Kind: p.kind, ID: p.id}
		s.sum = s.sum.Sub(s.parts[p])
		delete(s.parts, p)
		if v := s.part(p); v != nil {
			from, err := e.write(p.kind, p.id, v)
			if err != nil {
				return err
			}
			h := e.hash()
			s.parts[p] = h
			s.sum = s.sum.Add(h)
			row.Encoding = bytes.Clone(e.B[from:])
		}
		d.Parts = append(d.Parts, row)
	}
	clear(s.dirtyParts)
	return nil
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
	case KindLimit:
		if l := s.Limits.byName[p.id]; l != nil {
			return l
		}
	case KindPermit:
		if x := s.Limits.permit(p.id); x != nil {
			return x
		}
	case KindSchedule:
		if x := s.Schedules[p.id]; x != nil {
			return x
		}
	}
	return nil
}

// OpenState returns the state of a snapshot. The loader provides its tasks.
func OpenState(partition int32, snap Snapshot, load Loader) (*State, error) {
	return OpenStateAt(FormatVersion, partition, snap, load)
}

// OpenStateAt is OpenState for a build that passes barriers up to the level: see [State.SetLevel].
func OpenStateAt(level int, partition int32, snap Snapshot, load Loader) (*State, error) {
	s := NewState(partition, load)
	s.level, s.loadPart = level, snap.Load
	s.Next, s.sum, s.runs, s.carries = snap.Next, snap.Sum, append([]Run(nil), snap.Runs...), snap.Carries
	for _, row := range snap.Parts {
		if err := s.restore(row); err != nil {
			return nil, fmt.Errorf("read the %s %q of partition %d: %w", row.Kind, row.ID, partition, err)
		}
		s.parts[part{row.Kind, row.ID}] = hashEntity(row.Kind, row.ID, row.Encoding)
	}
	if p := s.Partition.Partition; p != partition {
		return nil, fmt.Errorf("%w: the snapshot is of partition %d, not %d", ErrImpossible, p, partition)
	}
	// A newer version may have folded past a barrier before this version replaced it.
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
		s.held.put(h)
		return nil
	case KindLimit:
		return json.Unmarshal(row.Encoding, s.Limits.of(row.ID))
	case KindPermit:
		x := new(Permit)
		if err := json.Unmarshal(row.Encoding, x); err != nil {
			return err
		}
		s.Limits.restore(x)
		return nil
	case KindDefinition:
		d := new(Definition)
		s.definitions[row.ID] = d
		err := json.Unmarshal(row.Encoding, d)
		s.EvictDefinition(row.ID)
		return err
	case KindSchedule:
		x := new(Schedule)
		s.Schedules[row.ID] = x
		return json.Unmarshal(row.Encoding, x)
	default:
		return fmt.Errorf("%w: entity kind %q", ErrUnknownFact, row.Kind)
	}
}
