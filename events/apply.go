package events

import (
	"fmt"
	"time"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// Fate is what the fold did with a record.
type Fate int

// The fates of a record. They live in memory only.
const (
	// Accepted: the fact changed the state.
	FateAccepted Fate = iota + 1
	// FateVoid: the record is not a fact, because its claim was late, its epoch is over, or its sequence was not
	// the next. Every reader skips it.
	FateVoid
)

// Apply folds the fact at the given offset. State changes in no other way. It evaluates no expression and reads no clock
// and no other topic (INV2, INV4).
//
// A void fact changes nothing but Next. An error means that the partition must stop: the fact may be half folded, so the
// state refuses to fold or store anything more.
func (s *State) Apply(f *Fact, offset int64) (Fate, error) {
	if s.refused != nil {
		return 0, s.refused
	}
	if offset < s.Next {
		return 0, fmt.Errorf("%w: offset %d was folded already", ErrImpossible, offset)
	}
	fate, err := s.apply(f, offset)
	s.refused = err
	return fate, err
}

func (s *State) apply(f *Fact, offset int64) (Fate, error) {
	first := s.Next == 0
	s.Next = offset + 1
	if first {
		if err := beginLog(s, f, offset); err != nil {
			return 0, err
		}
	}
	if claim, ok := f.Body.(*PartitionClaimed); ok {
		return s.claim(claim, f), nil
	}
	p := &s.Partition
	// Every reader of the log needs these two checks: only the current epoch counts, and in it only the next sequence. (Before
	// the first claim no epoch is current.)
	if p.Epoch.N == 0 || f.Epoch != p.Epoch || p.Broken || (f.Sequence != p.NextSequence && !s.lax.AnySequence) {
		if p.Epoch.N != 0 && f.Epoch == p.Epoch && f.Sequence > p.NextSequence {
			p.Broken = true // the records in the gap are lost, and nothing that follows them may count
			s.touchPart(KindPartition, "")
		}
		s.Void++
		return FateVoid, nil
	}
	if err := f.checkWatermark(); err != nil {
		return 0, fmt.Errorf("fold %s at offset %d: %w", f.Body.Name(), offset, err)
	}
	//mutant:hash-is-not-compared-while-loading
	if h, ok := f.Body.(*StateHash); ok && !p.Loading() {
		if err := s.compare(h); err != nil {
			return 0, err
		}
	}
	if err := s.fold(f); err != nil {
		return 0, fmt.Errorf("fold %s at offset %d: %w", f.Body.Name(), offset, err)
	}
	p.NextSequence = f.Sequence + 1
	p.count(f.Body)
	p.advance(f.Time)
	p.pass(f)
	s.runs.add(f, p.Epoch, offset)
	if p.Watermark.Before(f.Watermark) {
		p.Watermark = f.Watermark
		s.runs.dropBefore(p.owedAfter())
	}
	if b, ok := f.Body.(*InputRejected); ok {
		cause := f.Cause
		if b.HeldAt != "" { // the cause is the timer
			cause = b.HeldAt
		}
		if in, partition, at, ok := cause.Input(); ok && partition == p.Partition {
			s.rejected = append(s.rejected, Rejection{Input: in, Offset: at, Fact: offset, At: p.Time})
		}
	}
	if f.Task != "" && remembers(s, f) {
		if s.history == nil {
			s.history = make([]History, 0, s.lastHistory)
		}
		s.history = append(s.history, History{Task: f.Task, Offset: offset})
	}
	return FateAccepted, nil
}

// count counts a fact.
func (p *PartitionState) count(b Body) {
	p.SinceHash++
	switch b.(type) {
	case *StateHash:
		p.SinceHash = 0
	case *CarryBegun, *EntityCarried, *CarryEnded:
	default:
		p.SinceCarry++
	}
}

// remembers says whether the fact belongs to the history of its task. While the state is being loaded that history begins when the task is
// carried.
func remembers(s *State, f *Fact) bool {
	if _, carried := f.Body.(*EntityCarried); carried {
		return true
	}
	return !s.Partition.Loading() || s.tasks[f.Task] != nil
}

// checkWatermark refuses a watermark that names the fact itself or a later one. Effects cannot be acknowledged before their
// fact is in the log, and accepting such a watermark would lose them.
func (f *Fact) checkWatermark() error {
	at, p := f.Position(), f.Watermark
	if p.IsZero() || (p.Before(at) && (p.Epoch.N < at.Epoch.N || p.Epoch == at.Epoch)) {
		return nil
	}
	return fmt.Errorf("%w: the watermark of %s is %s, which is not before it", ErrImpossible, at, p)
}

// delay notes the position up to which a destination has taken its effects. That position never falls.
func (p *PartitionState) delay(b *EffectsDelayed) error {
	if known, ok := p.Delayed[b.Destination]; ok && b.After.Before(known) {
		return fmt.Errorf("%w: %s was acknowledged up to %s, and is now only up to %s", ErrImpossible, b.Destination, known, b.After)
	}
	if p.Delayed == nil {
		p.Delayed = map[string]Position{}
	}
	p.Delayed[b.Destination] = b.After
	return nil
}

// adopt replaces the settings. An owner that has not read the latest settings must not bring back older ones.
func (p *PartitionState) adopt(f *Fact, b *SettingsAdopted) error {
	if b.Offset < p.SettingsOffset {
		return fmt.Errorf("%w: the settings of offset %d are adopted after those of offset %d", ErrImpossible, b.Offset, p.SettingsOffset)
	}
	if was := p.Settings.RememberFor; b.Offset > 0 && was > 0 && b.Settings.RememberFor > was {
		p.ForgottenBefore = max(p.ForgottenBefore, f.Time.Add(-was.Std()))
	}
	p.Settings, p.SettingsOffset = b.Settings, b.Offset
	return nil
}

// owedAfter returns the position after which effects may be owed.
func (p *PartitionState) owedAfter() Position {
	at := p.Watermark
	for _, after := range p.Delayed {
		if after.Before(at) {
			at = after
		}
	}
	return at
}

// claim accepts a claim that names the current one as its predecessor. So a late or repeated claim fails automatically. A node
// below the barrier cannot own the partition: it could not read the facts that it claims to follow.
func (s *State) claim(c *PartitionClaimed, f *Fact) Fate {
	p := &s.Partition
	//mutant:claim-names-predecessor
	if (c.Prev != p.Epoch.ID && !s.lax.AnyClaim) || c.ID == "" || c.ID == p.Epoch.ID {
		s.Void++
		return FateVoid
	}
	//mutant:claim-passes-barrier
	if c.Reader < p.Reader {
		s.Void++
		return FateVoid
	}
	if p.Epoch.N == 0 {
		p.CarriedAt = f.Time
	}
	p.Epoch = Epoch{N: p.Epoch.N + 1, ID: c.ID}
	p.Owner, p.NextSequence, p.Broken = c.Owner, 0, false
	p.advance(f.Time)
	p.Since = p.Time
	s.touchPart(KindPartition, "")
	return FateAccepted
}

// A jump of the log's time means a quiet partition or a wrong clock. An owner that forgets tasks cannot tell the two apart: by a
// clock that is ten days ahead, every ended task is due to be forgotten. So it waits for SweepAfterJump, in which others notice
// the clock.
const (
	// TimeJump is longer than it takes to notice that a busy partition has no owner.
	TimeJump = time.Hour
	// SweepAfterJump is longer than a node takes to compare its clock with those of others, and short compared with the time for
	// which tasks are remembered.
	SweepAfterJump = 10 * time.Minute
)

// advance moves the time of the partition to that of a fact or claim, unless it is later already.
func (p *PartitionState) advance(to Instant) {
	if p.Time != 0 && to.Sub(p.Time) > TimeJump {
		p.JumpedAt = to
	}
	p.Time = max(p.Time, to)
}

// pass moves the resume point past the input that caused the fact. If the input is in another partition, the resume point
// stays.
func (p *PartitionState) pass(f *Fact) {
	in, partition, offset, ok := f.Cause.Input()
	if !ok || partition != p.Partition {
		return
	}
	if b, ok := f.Body.(*InputRejected); ok && b.Last > offset {
		p.passTo(in, Passed{Next: b.Last + 1}) // nothing is known about the last input
		return
	}
	p.passTo(in, Passed{Next: offset + 1, Hash: f.CauseHash})
}

func (p *PartitionState) passTo(in Input, to Passed) {
	if to.Next <= p.Inputs[in].Next {
		return
	}
	if p.Inputs == nil {
		p.Inputs = map[Input]Passed{}
	}
	p.Inputs[in] = to
}

// giveUp moves the resume point over inputs that were deleted before they were judged. Nothing is known about the record before the
// new resume point.
func (p *PartitionState) giveUp(b *InputLossAccepted) error {
	if at := p.Inputs[b.Input].Next; b.From != at || b.To < at || b.To == 0 {
		return fmt.Errorf("%w: the loss of the %s %d to %d is accepted, but the resume point is %d", ErrImpossible, b.Input, b.From, b.To-1, at)
	}
	if p.Inputs == nil {
		p.Inputs = map[Input]Passed{}
	}
	p.Inputs[b.Input] = Passed{Next: b.To}
	return nil
}

func (s *State) compare(h *StateHash) error {
	// Flush must not be used here: it returns the changed rows and then forgets them.
	sum, err := s.Hash()
	if err != nil {
		return err
	}
	if sum != h.Hash {
		return fmt.Errorf("%w: %s here, %s in the log", ErrStateHash, sum, h.Hash)
	}
	return nil
}

// Hash returns the hash of the current state. The next Flush still returns the changes.
func (s *State) Hash() (Hash, error) {
	ids := s.changedTasks()
	e := entityWriter{jsontext.Writer{B: make([]byte, 0, partBytes)}}
	w := newTaskWriter(len(ids))
	sum := s.sum
	for _, id := range ids {
		t := s.tasks[id]
		if t == nil {
			continue
		}
		if !t.hashed {
			if err := w.write(t); err != nil {
				return Hash{}, err
			}
			t.now, t.hashed = w.sum, true
		}
		sum = sum.Sub(t.hash).Add(t.now)
	}
	s.touchPart(KindPartition, "")
	for p := range s.dirtyParts {
		sum = sum.Sub(s.parts[p])
		if v := s.part(p); v != nil {
			if _, err := e.write(p.kind, p.id, v); err != nil {
				return Hash{}, err
			}
			sum = sum.Add(e.hash())
		}
	}
	return sum, nil
}

// fold applies the fact to the entities that it is about.
func (s *State) fold(f *Fact) error {
	if err := betweenRows(s, f); err != nil {
		return err
	}
	switch b := f.Body.(type) {
	case *VersionBarrier:
		return s.barrier(b)
	case *SettingsAdopted:
		return s.Partition.adopt(f, b)
	case *DefinitionAdopted:
		s.definitions[b.Hash] = &Definition{Workflow: b.Workflow, Hash: b.Hash, Version: b.Version, Body: b.Body}
		s.touchPart(KindDefinition, b.Hash)
	case *Submitted:
		return s.submitted(f, b)
	case *RequestHeld:
		s.hold(f, b)
	case *InputRejected:
		s.Partition.ScheduledForgottenBefore = max(s.Partition.ScheduledForgottenBefore, b.ScheduledForgottenBefore)
		if b.Held != "" {
			s.dropHeld(f.Task, b.Held)
		}
	case *InputsPassed:
		for in, to := range b.Inputs {
			s.Partition.passTo(in, to)
		}
	case *InputLossAccepted:
		return s.Partition.giveUp(b)
	case *TasksSwept:
		return s.sweep(b)
	case *TimeCorrected:
		return correctTime(s, f, b)
	case *PermitsDecided:
		return permitsDecided(s, f, b)
	case *LimitAdopted, *LimitPaused, *LimitResumed:
		return foldLimit(s, f)
	case *ScheduleAdopted:
		return foldSchedule(s, f, b.Schedule)
	case *ScheduleFired:
		return foldSchedule(s, f, b.Schedule)
	case *SchedulePassed:
		return foldSchedule(s, f, b.Schedule)
	case *ScheduleTaskEnded:
		return foldSchedule(s, f, b.Schedule)
	case *ScheduleCancelRequested:
		return foldSchedule(s, f, b.Schedule)
	case *SchedulePaused:
		return foldSchedule(s, f, b.Schedule)
	case *ScheduleResumed:
		return foldSchedule(s, f, b.Schedule)
	case *CarryBegun, *EntityCarried, *CarryEnded:
		return foldCarry(s, f)
	case *NamespaceClosed:
		foldClosed(&s.Partition, f, b)
	case *ChildRefused, *ChildAnswered, *ChildReturned:
		return childOutside(s, f)
	case *InputForwarded, *StateHash, *PermitReturned:
	case *Unreadable:
		return b.Err
	case *EffectFailed:
		return s.effectFailed(f, b)
	case *EffectsDelayed:
		return s.Partition.delay(b)
	case *EffectsCaughtUp:
		delete(s.Partition.Delayed, b.Destination)
	default:
		return s.foldTask(f)
	}
	return nil
}

func (s *State) barrier(b *VersionBarrier) error {
	if b.Reader > s.level {
		return TooOld(b.Reader, s.level)
	}
	s.Partition.Reader = max(s.Partition.Reader, b.Reader)
	return nil
}

func (s *State) submitted(f *Fact, b *Submitted) error {
	if known, err := s.Task(f.Task); err != nil {
		return err
	} else if known != nil {
		return fmt.Errorf("%w: task %q was accepted already", ErrImpossible, f.Task)
	}
	at := Position{s.Partition.Epoch, f.Sequence}
	t := &Task{
		ID: f.Task, Incarnation: at.String(), Run: 1, Workflow: b.Workflow, Version: b.Version, Definition: b.Hash, State: TaskStatePending,
		Priority: b.Priority, FairBy: b.FairBy, Labels: b.Labels, Input: b.Input, Content: b.Content,
		SubmittedAt: f.Time, UpdatedAt: f.Time, Deadline: b.Deadline, NotBefore: b.NotBefore, Delay: b.Delay, Facts: 1, Traceparent: f.Traceparent,
		ReplyTo: b.ReplyTo, ReplyKey: b.ReplyKey, Last: at, Schedule: b.Schedule, ScheduleBegan: b.ScheduleBegan, RememberFor: b.RememberFor,
	}
	from := max(f.Time, b.NotBefore)
	if b.Deadline > from {
		t.DeadlineWithin = Duration(min(b.Deadline, from.Add(MaxDelay.Std())).Sub(from))
	}
	t.beginSoft(b.RemindAfter, from)
	if b.Parent != nil {
		t.Parent = &Parent{ParentLink: *b.Parent}
	}
	if b.Concurrency != nil {
		t.Permit = &TaskPermit{Concurrency: *b.Concurrency}
	}
	for _, h := range s.HeldFor(f.Task) {
		// The request is kept in the task, so that Plan derives the facts from the state and not from memory: see
		// docs/protocol.md, "A cancel that comes first is held by a fact".
		//mutant:task-keeps-held-cancel
		t.Held = append(t.Held, h.Request)
		t.changeRequest(h.Request.ID)
		//mutant:held-cancel-is-used-once
		s.dropHeld(f.Task, h.Request.ID)
	}
	s.tasks[f.Task], s.absent = t, ""
	s.touchTask(f.Task, t)
	s.Partition.Tasks++
	return nil
}

func (s *State) hold(f *Fact, b *RequestHeld) {
	h := &HeldRequest{Request: b.Request, ExpiresAt: b.ExpiresAt, Cause: f.Cause, CauseHash: f.CauseHash}
	h.Request.Task = f.Task // a request may name its task in the record's key only
	s.held.put(h)
	s.touchPart(KindHeld, h.id())
}

func (s *State) dropHeld(task, request string) {
	s.held.drop(task, request)
	s.touchPart(KindHeld, heldID(task, request))
}

func (s *State) effectFailed(f *Fact, b *EffectFailed) error {
	switch {
	case b.Failed != nil:
		return s.foldTask(&Fact{Epoch: f.Epoch, Sequence: f.Sequence, Time: f.Time, Task: f.Task, Body: b.Failed})
	case b.CompensationFailed != nil:
		return s.foldTask(&Fact{Epoch: f.Epoch, Sequence: f.Sequence, Time: f.Time, Task: f.Task, Body: b.CompensationFailed})
	case b.ScheduleEnded != nil:
		return foldSchedule(s, &Fact{Epoch: f.Epoch, Sequence: f.Sequence, Time: f.Time, Body: b.ScheduleEnded}, b.ScheduleEnded.Schedule)
	}
	return nil
}
