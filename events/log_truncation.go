package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// CarryBegun begins a carry: the state of the partition is written into the log once more, so that the log can be cut in front of this
// fact. All entities but the tasks follow at once, then, between other facts, the tasks. See docs/protocol.md, "The log is cut where a
// carry begins".
type CarryBegun struct {
	// State is the partition's own entity before this fact. The runs of accepted facts are not part of it.
	State json.RawMessage `json:"state" schema:"type:PartitionState"`
	// Parts is the number of the other entities that are not rows of tasks. They follow directly.
	Parts int `json:"parts,omitzero"`
	// Copied says that the log begins with this carry, at offset 0: it is a copy of a namespace, and has never had other facts before it.
	Copied bool `json:"copied,omitzero"`
}

// EntityCarried is an entity as it is in the state, or a piece of one. The rows of a task follow each other without a fact between them.
type EntityCarried struct {
	Kind Kind `json:"kind"`
	// ID is the ID of the entity; of a row of a task, the path of the step or the ID of the request. The key of the fact is the task.
	ID string `json:"id,omitempty"`
	// Encoding is the entity, and Piece a part of the encoding of one that is longer than pieceBytes. More says that the next piece
	// follows.
	Encoding json.RawMessage `json:"encoding,omitempty"`
	Piece    string          `json:"piece,omitempty"`
	More     bool            `json:"more,omitzero"`
	// Last says that the task, or the entity that is not of a task, is complete.
	Last bool `json:"last,omitzero"`
}

// CarryEnded completes a carry. A reader that began with its CarryBegun has the whole state now.
type CarryEnded struct {
	// Records is the number of the EntityCarried, and Tasks that of the tasks among them.
	Records int64 `json:"records"`
	Tasks   int64 `json:"tasks"`
	// Hash is the hash of the state before this fact.
	Hash Hash `json:"hash"`
}

// Carrying is the carry that is under way.
type Carrying struct {
	Begun Position `json:"begun"`
	At    Instant  `json:"at"`
	// Parts is how many entities that are not of tasks are still to be carried, and Left how many tasks. A task that is forgotten before
	// its turn is not carried.
	Parts int   `json:"parts,omitzero"`
	Left  int64 `json:"left,omitzero"`
	// Task is the last task that was carried, or whose rows are being carried: tasks are carried in the order of their IDs.
	Task string `json:"task,omitempty"`
	// Half is how many records of an entity or a task were carried that is not complete yet. Only its next record may follow.
	Half    int   `json:"half,omitzero"`
	Records int64 `json:"records,omitzero"`
	Tasks   int64 `json:"tasks,omitzero"`
	// Loading says that the state began with this carry, and that tasks which were not carried yet are unknown.
	Loading bool `json:"loading,omitzero"`
}

// Carried is a complete carry. The log may be cut where it begins.
type Carried struct {
	Begun Position `json:"begun"`
	At    Instant  `json:"at"`
}

// CarryOffset is the offset at which a carry begins. It is not part of the state hash, as in [Run].
type CarryOffset struct {
	Begun  Position
	Offset int64
}

// maxCarried bounds the complete carries that are remembered: a carry begins each quarter of Settings.KeepLog, and only the latest one of
// those that are older than that is needed.
const maxCarried = 16

// carriesPerLog is how many carries begin while a fact is kept.
const carriesPerLog = 4

// pieceBytes is the longest encoding that is carried as a whole. As a text in JSON it is at most twice as long, which a record can hold.
const pieceBytes = 256 << 10

// half says whether only the next record of the carry may follow.
func (c *Carrying) half() bool { return c != nil && (c.Parts > 0 || c.Half > 0) }

// HalfCarried says whether the next fact must be the next record of the carry under way.
func (p *PartitionState) HalfCarried() bool { return p.Carry.half() }

// Loading says that the state began in the middle of the log, at a carry that has not ended yet: tasks are missing.
func (p *PartitionState) Loading() bool { return p.Carry != nil && p.Carry.Loading }

// CarryDue says whether a carry is to begin at that time.
func (p *PartitionState) CarryDue(at Instant) bool {
	keep := p.Settings.KeepLog.Std()
	return keep > 0 && p.Carry == nil && p.SinceCarry > 0 && at.Sub(p.CarriedAt) >= keep/carriesPerLog
}

// CarryOffsets returns where the carries of a state begin that are under way or remembered.
func CarryOffsets(s *State) []CarryOffset { return s.carries }

// Cut returns the offset at which the log may be cut at that time, if it may: where the latest complete carry begins that is older than
// Settings.KeepLog and that no fact with an unsettled effect precedes. The snapshot is that of a store, so that all its facts are durable, and p
// its partition.
func (snap *Snapshot) Cut(p *PartitionState, at Instant) (offset int64, ok bool) {
	keep := p.Settings.KeepLog.Std()
	if keep <= 0 || p.Loading() || p.JumpedAt != 0 && at.Sub(p.JumpedAt) < SweepAfterJump {
		return 0, false
	}
	owed := runs(snap.Runs).after(p.owedAfter(), snap.Next)
	for _, c := range slices.Backward(p.Carried) {
		i := slices.IndexFunc(snap.Carries, func(x CarryOffset) bool { return x.Begun == c.Begun })
		//mutant:cut-waits-for-effects
		if i >= 0 && snap.Carries[i].Offset <= owed && at.Sub(c.At) >= keep {
			return snap.Carries[i].Offset, true
		}
	}
	return 0, false
}

// begin checks the first record of a log. A log that was cut begins with a CarryBegun, whose state is that of the partition before it.
func beginLog(s *State, f *Fact, offset int64) error {
	b, ok := f.Body.(*CarryBegun)
	if offset == 0 && (!ok || !b.Copied) {
		return nil
	}
	if !ok {
		return fmt.Errorf("%w: the log begins at offset %d with %s, and a log that was cut begins with CarryBegun: facts are lost", ErrImpossible, offset, f.Body.Name())
	}
	number := s.Partition.Partition
	var p PartitionState
	if err := json.Unmarshal(b.State, &p); err != nil {
		return fmt.Errorf("read the state in CarryBegun at offset %d: %w", offset, err)
	}
	if p.Partition != number {
		return fmt.Errorf("%w: CarryBegun at offset %d is of partition %d, not %d", ErrImpossible, offset, p.Partition, number)
	}
	s.Partition = p
	if f.Epoch != p.Epoch || p.Broken || f.Sequence != p.NextSequence {
		return fmt.Errorf("%w: the log begins at offset %d with a CarryBegun that is void", ErrImpossible, offset)
	}
	s.loading = true
	return s.barrier(&VersionBarrier{Reader: p.Reader})
}

// foldCarry takes the facts of a carry.
func foldCarry(s *State, f *Fact) error {
	switch b := f.Body.(type) {
	case *CarryBegun:
		return carryBegun(s, f, b)
	case *EntityCarried:
		return entityCarried(s, f, b)
	case *CarryEnded:
		return carryEnded(s, b)
	}
	return nil
}

func carryBegun(s *State, f *Fact, b *CarryBegun) error {
	p := &s.Partition
	loading := s.loading
	s.loading = false
	if p.Carry != nil {
		return fmt.Errorf("%w: a carry begins, and the one of %s has not ended", ErrImpossible, p.Carry.Begun)
	}
	if !loading {
		now, err := partitionEncoding(s)
		if err != nil {
			return err
		}
		if !bytes.Equal(now, b.State) || b.Parts != len(allParts(s)) {
			return fmt.Errorf("%w: the state of the partition is not the one that CarryBegun has", ErrImpossible)
		}
	}
	p.Carry = &Carrying{Begun: f.Position(), At: max(f.Time, p.Time), Parts: b.Parts, Left: p.Tasks, Loading: loading}
	s.carries = append(slices.Clone(s.carries), CarryOffset{p.Carry.Begun, s.Next - 1})
	return nil
}

func entityCarried(s *State, f *Fact, b *EntityCarried) error {
	c := s.Partition.Carry
	if c == nil {
		return fmt.Errorf("%w: an entity is carried, and no carry has begun", ErrImpossible)
	}
	c.Records++
	ofTask := f.Task != ""
	if ofTask == (c.Parts > 0) {
		return fmt.Errorf("%w: a row of a task is carried before all other entities, or one of those after them", ErrImpossible)
	}
	if ofTask && c.Half == 0 && f.Task <= c.Task {
		return fmt.Errorf("%w: the task %q is carried after %q", ErrImpossible, f.Task, c.Task)
	}
	var err error
	switch {
	case c.Loading:
		err = loadCarried(s, f.Task, b)
	default:
		err = compareCarried(s, f.Task, b)
	}
	if err != nil {
		return err
	}
	if c.Half++; ofTask {
		c.Task = f.Task
	}
	if !b.Last {
		return nil
	}
	c.Half, s.carry.records, s.carry.of = 0, nil, ""
	if ofTask {
		c.Left, c.Tasks = c.Left-1, c.Tasks+1
		return nil
	}
	if c.Parts--; c.Parts == 0 {
		s.carry.parts = nil
	}
	return nil
}

// compareCarried refuses a record that is not the next one by the state. So each carry shows that a reader that begins with it has the same
// state as one that began with the log.
func compareCarried(s *State, task string, b *EntityCarried) error {
	if s.Partition.Carry.Half == 0 {
		s.carry.records = nil // what was prepared may be older
	}
	_, want, err := NextCarried(s, task)
	if err != nil {
		return err
	}
	if want == nil || want.Kind != b.Kind || want.ID != b.ID || want.Piece != b.Piece || want.More != b.More || want.Last != b.Last || !bytes.Equal(want.Encoding, b.Encoding) {
		return fmt.Errorf("%w: the carried %s %q of %q is not the one of the state", ErrImpossible, b.Kind, b.ID, task)
	}
	return nil
}

// loadCarried takes a record into a state that began with the carry.
func loadCarried(s *State, task string, b *EntityCarried) error {
	w := &s.carry
	encoding := []byte(b.Encoding)
	if b.Piece != "" {
		if w.piece = append(w.piece, b.Piece...); b.More {
			return nil
		}
		encoding, w.piece = w.piece, nil
	}
	row := PartRow{Kind: b.Kind, ID: b.ID, Encoding: encoding}
	if task == "" {
		s.touchPart(b.Kind, b.ID) // before restore, which leaves the body of a definition to the store that holds it
		if err := s.restore(row); err != nil {
			return fmt.Errorf("read the carried %s %q: %w", b.Kind, b.ID, err)
		}
		return nil
	}
	row.ID = rowID(task, b.ID)
	if w.rows = append(w.rows, row); !b.Last {
		return nil
	}
	rows := w.rows
	w.rows = nil
	t, err := DecodeTask(rows[0].Encoding, rows[1:])
	if err != nil {
		return fmt.Errorf("read the carried task %q: %w", task, err)
	}
	t = untouched(t)
	t.hash = Hash{}
	s.tasks[task], s.absent = t, ""
	s.touchTask(task, t)
	return nil
}

// carryEnded completes the carry, if every entity was carried and the state is that of the writer.
func carryEnded(s *State, b *CarryEnded) error {
	p := &s.Partition
	c := p.Carry
	if c == nil || c.half() || c.Left != 0 || c.Records != b.Records || c.Tasks != b.Tasks {
		return fmt.Errorf("%w: the carry ends with %d records and %d tasks, and the state says %+v", ErrImpossible, b.Records, b.Tasks, c)
	}
	c.Loading = false // as in the state of the writer
	if err := s.compare(&StateHash{Hash: b.Hash}); err != nil {
		return err
	}
	p.Carried = append(slices.Clone(p.Carried), Carried{Begun: c.Begun, At: c.At})
	old := slices.IndexFunc(p.Carried, func(x Carried) bool { return p.Time.Sub(x.At) < p.Settings.KeepLog.Std() }) - 1
	p.Carried = p.Carried[max(old, len(p.Carried)-maxCarried, 0):]
	s.carries = slices.DeleteFunc(slices.Clone(s.carries), func(x CarryOffset) bool {
		return !slices.ContainsFunc(p.Carried, func(c Carried) bool { return c.Begun == x.Begun })
	})
	p.Carry, p.CarriedAt, p.SinceCarry = nil, c.At, 0
	return nil
}

// unknownTask is the result of a fact about a task that the state does not have. It may be one that was not carried yet, although it was
// accepted before the log was cut.
func unknownTask(s *State, id string) error {
	//mutant:uncarried-task-is-passed
	if s.Partition.Loading() {
		return nil
	}
	return fmt.Errorf("%w: task %q is not known", ErrImpossible, id)
}

// betweenRows refuses a fact between the rows of an entity.
func betweenRows(s *State, f *Fact) error {
	if _, carried := f.Body.(*EntityCarried); !carried && s.Partition.HalfCarried() {
		return fmt.Errorf("%w: an entity is half carried", ErrImpossible)
	}
	return nil
}

// leaveCarry counts a task that is forgotten, and does not have to be carried if that was still to come. t is nil if the state does not have it
// yet.
func (p *PartitionState) leaveCarry(id string, t *Task) error {
	p.Tasks--
	c := p.Carry
	if c == nil {
		return nil
	}
	if t != nil {
		accepted, err := ParsePosition(t.Incarnation)
		//mutant:forgotten-task-is-not-carried
		//mutant:carried-task-leaves-no-gap
		//mutant:later-task-leaves-no-gap
		if err != nil || !accepted.Before(c.Begun) || id <= c.Task {
			return err
		}
	}
	c.Left--
	return nil
}

// correctCarries takes a TimeCorrected: carries did not begin at a later time.
func (p *PartitionState) correctCarries(to Instant) {
	//mutant:corrected-carry-is-due
	p.CarriedAt = min(p.CarriedAt, to)
	if p.Carry != nil {
		//mutant:corrected-carry-has-begun
		p.Carry.At = min(p.Carry.At, to)
	}
	for i := range p.Carried {
		//mutant:corrected-carry-is-old-enough
		p.Carried[i].At = min(p.Carried[i].At, to)
	}
}
