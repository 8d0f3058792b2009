package events

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A copy of a namespace begins the log of each of its partitions with a carry of the entities that have their home there. They come from the
// states of all partitions of the other namespace. What names a place of that one is left behind: the epoch, the resume points, the
// watermark. docs/protocol.md, "A namespace is copied as a carry".

// CopiedEntity is an entity that a copy takes along, other than a task.
type CopiedEntity struct {
	Kind Kind
	ID   string
	// Home is the key whose partition it lives in; empty for an entity that every partition has.
	Home string
	// Records are its EntityCarried.
	Records []EntityCarried
}

// CopiedEntities returns the entities of a state that a copy takes along, other than tasks: definitions, schedules, limits and permits. Held requests
// are not among them, since they cite inputs of this namespace: they are sent to the copy again.
func CopiedEntities(s *State) ([]CopiedEntity, error) {
	var list []CopiedEntity
	for _, p := range allParts(s) {
		if p.kind == KindHeld {
			continue
		}
		records, err := partRecords(s, p)
		if err != nil {
			return nil, err
		}
		list = append(list, CopiedEntity{p.kind, p.id, homeKey(p), records})
	}
	return list, nil
}

// homeKey returns the key whose partition an entity lives in.
func homeKey(p part) string {
	name, _, _ := strings.Cut(p.id, "\x00")
	switch p.kind {
	case KindSchedule:
		return ScheduleKey(name)
	case KindLimit, KindPermit:
		return name
	}
	return ""
}

// SortCopied brings entities into the order in which a carry has them, and leaves out repeats: several partitions may have a definition.
func SortCopied(list []CopiedEntity) []CopiedEntity {
	slices.SortStableFunc(list, func(a, b CopiedEntity) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.ID, b.ID))
	})
	return slices.CompactFunc(list, func(a, b CopiedEntity) bool { return a.Kind == b.Kind && a.ID == b.ID })
}

// CopiedTask returns the EntityCarried of a task, nil if the state does not have it.
func CopiedTask(s *State, id string) ([]EntityCarried, error) {
	t, err := peek(s, id)
	if t == nil || err != nil {
		return nil, err
	}
	return carryTask(s, t)
}

// CopyTarget is a partition of a copy, which has that many Partitions, and begins in that epoch.
type CopyTarget struct {
	Partition, Partitions int32
	Epoch                 string
}

// mayHold says whether the home of a task can be the target in the copy, and that partition in the namespace that is copied. Both are the remainder of
// one hash.
func (c CopyTarget) mayHold(partition int32, partitions int) bool {
	shared := partitions
	for rest := int(c.Partitions); rest > 0; {
		shared, rest = rest, shared%rest
	}
	return int(partition)%shared == int(c.Partition)%shared
}

// CopiedPartition returns the partition with which a copy begins. from are those of the namespace that is copied. Its epoch follows all of theirs, so that each
// position in a task that was copied precedes the copy, and no task gets an incarnation that another one had.
func CopiedPartition(from []*PartitionState, to CopyTarget) (PartitionState, error) {
	p := PartitionState{Partition: to.Partition, Owner: CopyOwner}
	for _, x := range from {
		switch {
		case x.Correcting != 0:
			return p, fmt.Errorf("the time of partition %d is being corrected: start a node of the namespace for a minute, which completes that", x.Partition)
		case x.Loading():
			return p, fmt.Errorf("the state of partition %d is not complete: it began with a carry that has not ended", x.Partition)
		}
		//mutant:copy-follows-all-epochs
		p.Epoch.N = max(p.Epoch.N, x.Epoch.N)
		p.Time, p.JumpedAt = max(p.Time, x.Time), max(p.JumpedAt, x.JumpedAt)
		if to.mayHold(x.Partition, len(from)) {
			p.ForgottenBefore = max(p.ForgottenBefore, x.ForgottenBefore)
			p.ScheduledForgottenBefore = max(p.ScheduledForgottenBefore, x.ScheduledForgottenBefore)
		}
		if x.SettingsOffset >= p.SettingsOffset && x.Settings != (Settings{}) {
			p.Settings, p.SettingsOffset = x.Settings, x.SettingsOffset
		}
		p.Reader = max(p.Reader, x.Reader)
		p.SchedulesOffset, p.LimitsOffset = max(p.SchedulesOffset, x.SchedulesOffset), max(p.LimitsOffset, x.LimitsOffset)
	}
	if p.Epoch.N > 0 { // whatever was owed before has been sent
		p.Watermark = Position{Epoch{p.Epoch.N, to.Epoch}, math.MaxInt64}
	}
	p.Epoch = Epoch{p.Epoch.N + 1, to.Epoch}
	p.Since, p.CarriedAt = p.Time, p.Time
	return p, nil
}

// CopyOwner is the owner of a partition that nobody has claimed since it was copied.
const CopyOwner = "sagalog namespace copy"

// BeginCopied returns the fact with which the log of a copied partition begins.
func BeginCopied(p *PartitionState, parts int) (*Fact, error) {
	s := NewState(p.Partition, nil)
	s.Partition = *p
	state, err := partitionEncoding(s)
	return &Fact{Epoch: p.Epoch, Sequence: p.NextSequence, Time: p.Time, Body: &CarryBegun{State: state, Parts: parts, Copied: true}}, err
}

// EndCopied returns the fact with which the carry of a copied partition ends. The state is that of its readers.
func EndCopied(s *State) (*CarryEnded, error) {
	c := s.Partition.Carry
	c.Loading = false // as in the state of a writer, and in that of a reader once it has the fact
	h, err := s.Hash()
	c.Loading = true
	return &CarryEnded{Records: c.Records, Tasks: c.Tasks, Hash: h}, err
}

// RestOfCarried returns the records of a carry that must follow before any other fact, and the task that they are of, "" if they are of none. The state is
// not changed.
func RestOfCarried(s *State) (list []EntityCarried, task string, err error) {
	c := s.Partition.Carry
	if c.Parts == 0 {
		if list, err = carriedTask(s, c.Task); err != nil {
			return nil, "", err
		}
		return list[min(c.Half, len(list)):], c.Task, nil
	}
	parts := allParts(s)
	if c.Parts > len(parts) {
		return nil, "", fmt.Errorf("%w: %d entities are to be carried, and there are %d", ErrImpossible, c.Parts, len(parts))
	}
	for _, p := range parts[len(parts)-c.Parts:] {
		records, err := partRecords(s, p)
		if err != nil {
			return nil, "", err
		}
		list = append(list, records...)
	}
	return list[min(c.Half, len(list)):], "", nil
}
