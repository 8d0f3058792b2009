package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// PartitionState is the entity of the partition itself.
type PartitionState struct {
	Partition int32 `json:"partition"`
	Epoch     Epoch `json:"epoch,omitzero"`
	// Owner is the node that made the current claim.
	Owner string  `json:"owner,omitempty"`
	Since Instant `json:"since,omitzero"`
	// NextSequence is the only sequence that the fold accepts next.
	NextSequence uint64 `json:"next_sequence,omitzero"`
	// Broken says that a gap voided the rest of the epoch.
	Broken bool `json:"broken,omitzero"`
	// Time is the time of the latest fact; the next fact's time is not earlier.
	Time Instant `json:"time,omitzero"`
	// JumpedAt is the time of the latest fact or claim that was more than TimeJump later than all before it.
	JumpedAt Instant `json:"jumped_at,omitzero"`
	// Correcting is To of the TimeCorrected after which some tasks may still have instants of the wrong time; zero if none has.
	Correcting Instant `json:"correcting,omitzero"`
	// Inputs holds the resume point of each input topic. It is stored nowhere else.
	Inputs map[Input]Passed `json:"inputs,omitempty"`
	// Watermark is the position up to which all effects are known to be acknowledged, apart from effects for delayed
	// destinations.
	Watermark Position `json:"watermark,omitzero"`
	// Delayed holds, for each destination that took no effects for a while, the position up to which it has taken all.
	Delayed map[string]Position `json:"delayed,omitempty"`
	// Settings are the adopted settings. SettingsOffset is the Offset of the fact that adopted them, and never falls.
	Settings       Settings `json:"settings,omitzero"`
	SettingsOffset int64    `json:"settings_offset,omitzero"`
	// ForgottenBefore is later than the end of each task that was forgotten while it was remembered for a shorter time than
	// now. Zero means that no task was.
	ForgottenBefore Instant `json:"forgotten_before,omitzero"`
	// ScheduledForgottenBefore is later than the end of each task of a schedule that was forgotten, and than each submission of a schedule that
	// was refused as too old.
	ScheduledForgottenBefore Instant `json:"scheduled_forgotten_before,omitzero"`
	// Reader is the barrier: the lowest format version that may continue reading and may claim.
	Reader int `json:"reader,omitzero"`
	// SchedulesOffset is the highest Offset of a ScheduleAdopted.
	SchedulesOffset int64 `json:"schedules_offset,omitzero"`
	// LimitsOffset is the highest Offset of a LimitAdopted.
	LimitsOffset int64 `json:"limits_offset,omitzero"`
	// Tasks is the number of tasks in the state.
	Tasks int64 `json:"tasks,omitzero"`
	// Carry is the carry that is under way, and Carried are the complete ones that are remembered. CarriedAt is when the latest complete
	// one began; until there is one, when the partition was claimed first.
	Carry     *Carrying `json:"carry,omitempty"`
	Carried   []Carried `json:"carried,omitempty"`
	CarriedAt Instant   `json:"carried_at,omitzero"`
	// SinceCarry counts the accepted facts since the latest CarryEnded, apart from StateHash and the facts of a carry.
	SinceCarry int64 `json:"since_carry,omitzero"`
	// SinceHash counts the accepted facts since the last StateHash.
	SinceHash int `json:"since_hash,omitzero"`
	// Closed is set while the partition is closed, because it was copied into another namespace.
	Closed *Closed `json:"closed,omitempty"`
}

// Definition is the entity of an adopted version of a workflow. Its ID is its hash.
type Definition struct {
	Workflow string `json:"workflow"`
	Hash     string `json:"hash"`
	Version  int    `json:"version"`
	// Body is nil once it was evicted: see [State.DefinitionBody].
	Body json.RawMessage `json:"body"`
}

// StoredTask is a task as a store holds it.
type StoredTask struct {
	// Encoding is the encoding of the task's head, nil if the task does not exist. Keys are its Keys as AppendKeys wrote them.
	Encoding, Keys []byte
	// Rows are all of its other rows, in any order.
	Rows []PartRow
}

// Loader finds a task that is not in memory.
type Loader func(id string) (StoredTask, error)

// sweptTask describes the rows of a swept task that a store still holds.
type sweptTask struct {
	keys *Keys
	// rows deletes the rows besides the head.
	rows []PartRow
}

// State is the fold of one partition of events. It is not safe for concurrent use: one goroutine owns it.
//
// Invariant (INV2): two states that folded the same records have the same hash, whatever was in memory in between.
type State struct {
	// Schedules are those whose home is the partition.
	Schedules Schedules
	Partition PartitionState
	// Next is the offset of the record to be folded next.
	Next int64
	// Void counts the records that the fold skipped since the state was opened.
	Void int64

	// Limits are those that live here.
	Limits Limits

	// tasks holds nil for a task that was swept and may still be in the store.
	tasks       map[string]*Task
	swept       map[string]sweptTask
	held        heldRequests
	definitions map[string]*Definition
	load        Loader
	// absent is the last task that load did not find: an owner asks for the task of a submission before and while it is accepted.
	absent string
	// loadPart is Snapshot.Load.
	loadPart func(k Kind, id string) ([]byte, error)

	runs runs
	// carries are where the carries begin that are under way or remembered.
	carries []CarryOffset
	sum     Hash
	parts   map[part]Hash // hashes of held requests, definitions and the partition, as counted in sum

	// dirtyTasks are the IDs of the tasks in memory that changed since the last Flush; one that was swept and accepted again
	// occurs twice. dirtyOthers holds tasks that were swept, or touched while they were not in memory.
	dirtyTasks  []string
	dirtyOthers map[string]bool
	dirtyParts  map[part]bool
	history     []History
	// lastHistory is how many entries history had at the last Flush, as a guess for the next one.
	lastHistory int
	rejected    []Rejection

	// carry holds what writing, comparing and loading carried entities needs in memory. loading says that the record that is being folded is the
	// first one of a log that was cut.
	carry   carryWork
	loading bool

	// refused is the first error of Apply, after which a fact may be half folded.
	refused error

	// level is the highest barrier that this build passes.
	level int
	lax   Lax
}

// Lax leaves out rules of the fold, so that the simulator can show what each of them prevents. Nothing else sets it.
type Lax struct {
	// AnyClaim accepts a claim regardless of the predecessor that it names.
	AnyClaim bool
	// AnySequence accepts a fact of the current epoch regardless of its sequence.
	AnySequence bool
}

// SetLax is for the simulator: see Lax.
func (s *State) SetLax(l Lax) { s.lax = l }

// SetLevel sets the highest barrier that the fold passes, FormatVersion by default. Only tests set another, to have builds of two
// versions in one process.
func (s *State) SetLevel(level int) { s.level = level }

type part struct {
	kind Kind
	id   string
}

// NewState returns the state before the first record. load may be nil, when everything is in memory.
func NewState(partition int32, load Loader) *State {
	s := &State{
		Partition:   PartitionState{Partition: partition},
		tasks:       map[string]*Task{},
		swept:       map[string]sweptTask{},
		held:        heldRequests{},
		Limits:      Limits{byName: map[string]*Limit{}},
		definitions: map[string]*Definition{},
		Schedules:   Schedules{},
		load:        load,
		parts:       map[part]Hash{},
		dirtyOthers: map[string]bool{},
		dirtyParts:  map[part]bool{},
		level:       FormatVersion,
	}
	return s
}

// Task returns the task with that ID, nil if it is not known. The caller must not change it.
func (s *State) Task(id string) (*Task, error) {
	t, err := peek(s, id)
	if t != nil {
		s.tasks[id] = t
	}
	return t, err
}

// peek is Task, but a task that is not in memory does not stay there.
func peek(s *State, id string) (*Task, error) {
	if t, ok := s.tasks[id]; ok {
		return t, nil
	}
	if s.load == nil || s.absent == id {
		return nil, nil
	}
	stored, err := s.load(id)
	if err != nil {
		return nil, fmt.Errorf("load task %q: %w", id, err)
	}
	if stored.Encoding == nil {
		s.absent = id
		return nil, nil
	}
	t, err := DecodeTask(stored.Encoding, stored.Rows)
	if err != nil {
		return nil, fmt.Errorf("%w: task %q: %w", ErrRow, id, err)
	}
	if t.keys, err = DecodeKeys(stored.Keys); err != nil {
		return nil, fmt.Errorf("%w: task %q: %w", ErrRow, id, err)
	}
	return t, nil
}

// Touch makes the next Flush write the task's row although no fact changed it, because its place in the queue or its next timer
// has changed. The task may have been evicted meanwhile.
func (s *State) Touch(id string) {
	if t := s.tasks[id]; t != nil {
		s.touchTask(id, t)
	} else {
		s.dirtyOthers[id] = true
	}
}

// Definition returns an adopted definition by its hash, nil if the partition has not adopted it.
func (s *State) Definition(hash string) *Definition { return s.definitions[hash] }

// DefinitionBody returns the body of an adopted definition, from the store if it was evicted.
func (s *State) DefinitionBody(hash string) (json.RawMessage, error) {
	d := s.definitions[hash]
	if d == nil || d.Body != nil || s.loadPart == nil {
		if d == nil {
			return nil, fmt.Errorf("definition %s is not known in this partition", hash)
		}
		return d.Body, nil
	}
	row, err := s.loadPart(KindDefinition, hash)
	if err != nil {
		return nil, fmt.Errorf("load definition %s: %w", hash, err)
	}
	stored := new(Definition)
	if err := json.Unmarshal(row, stored); err != nil {
		return nil, fmt.Errorf("%w: definition %s: %w", ErrRow, hash, err)
	}
	return stored.Body, nil
}

// EvictDefinition forgets the body of an adopted definition that the store holds. As for Evict, its row is durable there.
func (s *State) EvictDefinition(hash string) {
	if d := s.definitions[hash]; d != nil && s.loadPart != nil && !s.dirtyParts[part{KindDefinition, hash}] {
		without := *d
		without.Body = nil
		s.definitions[hash] = &without
	}
}

// InMemory returns the number of tasks in memory.
func (s *State) InMemory() int { return len(s.tasks) }

// Evict forgets a task that the loader can load again. The caller guarantees that its latest encoding is durable
// there. A task that changed since the last Flush is kept.
func (s *State) Evict(id string) {
	if t := s.tasks[id]; (t == nil || !t.dirty) && !s.dirtyOthers[id] {
		delete(s.tasks, id)
	}
}

// Loaded calls yield for each task in memory until it returns false.
func (s *State) Loaded(yield func(*Task) bool) {
	for _, t := range s.tasks {
		if t != nil && !yield(t) {
			return
		}
	}
}

// Changed returns approximately how many tasks changed since the last Flush. It returns 0 only if none did.
func (s *State) Changed() int { return len(s.dirtyTasks) + len(s.dirtyOthers) }

// Sum returns the state hash as of the last Flush.
func (s *State) Sum() Hash { return s.sum }

// Runs returns the runs of accepted facts after the positions of OffsetAfter. The slice is valid until the next Apply.
func (s *State) Runs() []Run { return s.runs }

// OffsetAfter returns the offset of the first fact after a position, which must be the watermark or one of
// [PartitionState.Delayed]; the end of the log if no fact is after it.
func (s *State) OffsetAfter(p Position) int64 { return s.runs.after(p, s.Next) }

// Accepted says whether the record at that offset was accepted as a fact. It knows only facts after the positions of OffsetAfter.
func (s *State) Accepted(offset int64) bool { return s.runs.accepted(offset) }

func (s *State) touchTask(id string, t *Task) {
	t.hashed = false
	if !t.dirty {
		t.dirty = true
		s.dirtyTasks = append(s.dirtyTasks, id)
	}
}

func (s *State) touchPart(k Kind, id string) { s.dirtyParts[part{k, id}] = true }

// changedTasks returns the IDs of the tasks that changed since the last Flush, in order.
func (s *State) changedTasks() []string {
	ids := append(make([]string, 0, len(s.dirtyTasks)+len(s.dirtyOthers)), s.dirtyTasks...)
	for id := range s.dirtyOthers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// changedParts returns the other entities that changed, in order.
func (s *State) changedParts() []part {
	list := make([]part, 0, len(s.dirtyParts))
	for p := range s.dirtyParts {
		list = append(list, p)
	}
	sortParts(list)
	return list
}

func sortParts(list []part) {
	slices.SortFunc(list, func(a, b part) int {
		return cmp.Or(strings.Compare(string(a.kind), string(b.kind)), strings.Compare(a.id, b.id))
	})
}
