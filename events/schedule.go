package events

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Overlap says what becomes of a due time while a task of the schedule has not ended. A parked task has not ended.
type Overlap string

// The values of Overlap.
const (
	// OverlapSkip passes over the due time.
	OverlapSkip Overlap = "skip"
	// OverlapQueueOne starts its task when the other has ended. Only one due time waits; more are passed over.
	OverlapQueueOne Overlap = "queue_one"
	// OverlapCancel asks the other to cancel, and starts its task when that one has ended. The latest due time waits; those before it are passed
	// over.
	OverlapCancel Overlap = "cancel"
	// OverlapAllow starts its task at once.
	OverlapAllow Overlap = "allow"
)

// Overlaps returns the values of Overlap.
func Overlaps() []Overlap {
	return []Overlap{OverlapSkip, OverlapQueueOne, OverlapCancel, OverlapAllow}
}

// Waits says whether a due time waits until the task has ended.
func (o Overlap) Waits() bool { return o == OverlapQueueOne || o == OverlapCancel }

// ScheduleDefinition is the object of a schedule as it was applied, with every default filled in. Exactly one of Cron and Every is set.
type ScheduleDefinition struct {
	Schedule string   `json:"schedule"`
	Workflow string   `json:"workflow"`
	Version  int      `json:"version,omitzero"`
	Cron     string   `json:"cron,omitempty"`
	Every    Duration `json:"every,omitzero"`
	TimeZone string   `json:"time_zone,omitempty"`
	Overlap  Overlap  `json:"overlap,omitempty"`
	// CatchUp is how late a due time may be: an older one is missed.
	CatchUp Duration `json:"catch_up,omitzero"`
	// Jitter is the longest time by which the task of a due time is submitted late.
	Jitter   Duration          `json:"jitter,omitzero"`
	Input    json.RawMessage   `json:"input,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Priority int               `json:"priority,omitzero"`
	Deadline string            `json:"deadline,omitempty" schema:"type:Duration"`
}

// The bounds of a schedule.
const (
	// MaxScheduleRunning bounds the tasks of a schedule that have not ended, with OverlapAllow.
	MaxScheduleRunning = 100
	// MaxScheduleFires is how many of its latest due times a schedule remembers.
	MaxScheduleFires = 100
	// MaxScheduleBytes bounds its definition.
	MaxScheduleBytes = 64 << 10
	// ScheduleBlockedAfter is how many due times are passed over in a row until an alert says so.
	ScheduleBlockedAfter = 3
)

// ScheduleKey is the key of a schedule's records, in the definitions and in the reports. Its home is the partition of this key, as that
// of a task is the partition of its ID.
func ScheduleKey(name string) string { return "schedule/" + name }

// ScheduleOfKey returns the schedule that a key names, "" if it is not the key of a schedule.
func ScheduleOfKey(key string) string {
	name, ok := strings.CutPrefix(key, "schedule/")
	if !ok {
		return ""
	}
	return name
}

// ScheduleTask is the ID of the task of a due time.
func ScheduleTask(name string, due Instant) string {
	text := due.String()
	if whole, ok := strings.CutSuffix(text, ".000Z"); ok {
		text = whole + "Z"
	}
	return name + "/" + text
}

// Schedule is the entity of a schedule, in the partition that is its home.
type Schedule struct {
	Name string `json:"name"`
	// Offset is that of the record of the definitions that Body is from.
	Offset int64           `json:"offset"`
	Body   json.RawMessage `json:"body"`
	// Began is the offset of the first such record: it distinguishes the schedule from a deleted one of the same name.
	Began int64 `json:"began"`
	// Next is the next due time, zero if none exists; it was found at NextAt.
	Next   Instant `json:"next,omitzero"`
	NextAt Instant `json:"next_at,omitzero"`
	// Previous is the latest due time that led to a task.
	Previous Instant `json:"previous,omitzero"`
	Paused   *Paused `json:"paused,omitempty"`
	// Queued is a due time whose task starts when the running ones have ended. Cancels says that these are asked to cancel.
	Queued  Instant        `json:"queued,omitzero"`
	Cancels bool           `json:"cancels,omitzero"`
	Running []ScheduleFire `json:"running,omitempty"`
	// Fires are the latest due times that led to a task, the earliest first.
	Fires []ScheduleFire `json:"fires,omitempty"`
	// Fired, Skipped, Missed and Failed count due times; InRow counts those passed over since the last task because one was running.
	Fired   int64 `json:"fired,omitzero"`
	Skipped int64 `json:"skipped,omitzero"`
	Missed  int64 `json:"missed,omitzero"`
	Failed  int64 `json:"failed,omitzero"`
	InRow   int   `json:"in_row,omitzero"`
}

// ScheduleFire is a due time that led to a task.
type ScheduleFire struct {
	Due  Instant `json:"due"`
	Task string  `json:"task"`
	At   Instant `json:"at"`
	// Request is the request that triggered it.
	Request string `json:"request,omitempty"`
	// CancelledFor is the due time for which the task was asked to cancel, of a task that has not ended.
	CancelledFor Instant `json:"cancelled_for,omitzero"`
	// State is how the task ended, or EndRejected; empty while it has not.
	State  string `json:"state,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Definition returns the object of the schedule.
func (s *Schedule) Definition() (*ScheduleDefinition, error) {
	d := new(ScheduleDefinition)
	if err := json.Unmarshal(s.Body, d); err != nil {
		return nil, fmt.Errorf("schedule %q: %w", s.Name, err)
	}
	return d, nil
}

// HasFired says whether the schedule remembers that a due time led to a task.
func (s *Schedule) HasFired(due Instant) bool {
	is := func(f ScheduleFire) bool { return f.Due == due }
	return slices.ContainsFunc(s.Fires, is) || slices.ContainsFunc(s.Running, is)
}

// Granted says whether the schedule remembers a due time that the request triggered.
func (s *Schedule) Granted(request string) bool {
	return slices.ContainsFunc(s.Fires, func(f ScheduleFire) bool { return f.Request == request })
}

// Forgets says whether a due time is so early that it may have led to a task which the schedule does not remember.
func (s *Schedule) Forgets(due Instant) bool {
	return len(s.Fires) == MaxScheduleFires && !slices.ContainsFunc(s.Fires, func(f ScheduleFire) bool { return f.Due <= due })
}

// Awaits says whether the schedule waits for that end of a task.
func (s *Schedule) Awaits(e *TaskEnd) bool { return s.Began == e.Began && s.Runs(e.Task) }

// Runs says whether a task of the schedule has not ended.
func (s *Schedule) Runs(task string) bool {
	return slices.ContainsFunc(s.Running, func(f ScheduleFire) bool { return f.Task == task })
}

// ToCancel returns a task that has not ended and is not yet asked to cancel, although the queued due time wants it to be; "" if none is.
func (s *Schedule) ToCancel() string {
	if s.Queued == 0 || !s.Cancels {
		return ""
	}
	for _, f := range s.Running {
		if f.CancelledFor == 0 {
			return f.Task
		}
	}
	return ""
}

// IsOver says whether the schedule remembers that a task has ended, or was never accepted.
func (s *Schedule) IsOver(task string) bool {
	return slices.ContainsFunc(s.Fires, func(f ScheduleFire) bool { return f.Task == task && f.State != "" })
}

// EndRejected is the State of a TaskEnd whose task was never accepted.
const EndRejected = "rejected"

// TaskEnd is the value of a record in <ns>.reports with the type TypeTaskEnd: a task that another entity started tells it how it
// ended.
type TaskEnd struct {
	Schedule string `json:"schedule"`
	Task     string `json:"task"`
	// Began is where the schedule began that started the task.
	Began int64 `json:"began,omitzero"`
	// State is the state of a task that has ended, or EndRejected.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// ScheduleRequest is the value of a record in <ns>.reports whose type is that of a verb of schedules.
type ScheduleRequest struct {
	ID       string `json:"id" schema:"optional"`
	Schedule string `json:"schedule"`
	// Due is the due time of a trigger.
	Due Instant `json:"due,omitzero"`
	// Overlap of a trigger counts instead of that of the schedule.
	Overlap Overlap `json:"overlap,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	By      string  `json:"by,omitempty"`
}

// The types of the requests about schedules.
const (
	TypeSchedulePause   = "sagalog.schedule.pause"
	TypeScheduleResume  = "sagalog.schedule.resume"
	TypeScheduleTrigger = "sagalog.schedule.trigger"
)

// ScheduleAdopted brings a schedule into its home partition, replaces its definition, or without a body removes it. Pause, running tasks
// and what has fired stay.
type ScheduleAdopted struct {
	Schedule string `json:"schedule"`
	// Offset is that of the record of the definitions. It never falls within a partition.
	Offset int64           `json:"offset"`
	Body   json.RawMessage `json:"body,omitempty"`
	Next   Instant         `json:"next,omitzero"`
}

// ScheduleFired says that a due time leads to a task. Its effect is the submission.
type ScheduleFired struct {
	Schedule   string          `json:"schedule"`
	Due        Instant         `json:"due"`
	Next       Instant         `json:"next,omitzero"`
	Task       string          `json:"task"`
	Submission json.RawMessage `json:"submission" schema:"type:Submission"`
	// Request is the request that triggered it.
	Request string `json:"request,omitempty"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
}

// The values of SchedulePassed.Why.
const (
	// PassedOverlap: a task of the schedule has not ended.
	PassedOverlap = "overlap"
	// PassedQueued: the same, and the task of the due time starts when that one has ended.
	PassedQueued = "queued"
	// PassedMissed: nobody could submit the task before catch_up was over.
	PassedMissed = "missed"
	// PassedFired: the due time has led to a task before the time of the partition was corrected.
	PassedFired = "fired"
	// PassedFailed: the submission cannot be made.
	PassedFailed = "failed"
)

// SchedulePassed says that Count due times from Due on lead to no task, or not now.
type SchedulePassed struct {
	Schedule string  `json:"schedule"`
	Due      Instant `json:"due"`
	Count    int     `json:"count"`
	Why      string  `json:"why" schema:"words:Passed*"`
	Next     Instant `json:"next,omitzero"`
	// InRow counts the due times that were passed over in a row because a task had not ended, with this one.
	InRow  int    `json:"in_row,omitzero"`
	Reason string `json:"reason,omitempty"`
	// Request is the request that triggered a due time which is queued.
	Request string `json:"request,omitempty"`
	// Cancels, of a due time that is queued, says that the tasks which have not ended are asked to cancel.
	Cancels bool `json:"cancels,omitzero"`
}

// ScheduleCancelRequested says that a task of a schedule is asked to cancel, because the due time Due waits until it has ended. Its effect is the
// request.
type ScheduleCancelRequested struct {
	Schedule string  `json:"schedule"`
	Task     string  `json:"task"`
	Due      Instant `json:"due"`
	// Began is where the schedule began.
	Began int64 `json:"began"`
}

// ScheduleTaskEnded says how a task of a schedule ended.
type ScheduleTaskEnded struct {
	Schedule string `json:"schedule"`
	Task     string `json:"task"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
}

// SchedulePaused holds a schedule: no due time leads to a task.
type SchedulePaused struct {
	Schedule string `json:"schedule"`
	Request  string `json:"request"`
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
}

// ScheduleResumed lets a schedule go on, with the next due time from now on. Those in between are passed over and not counted.
type ScheduleResumed struct {
	Schedule string  `json:"schedule"`
	Request  string  `json:"request"`
	Next     Instant `json:"next,omitzero"`
	Reason   string  `json:"reason,omitempty"`
	By       string  `json:"by,omitempty"`
}

// Schedules are the schedules of a partition by name. Only the fold changes them.
type Schedules map[string]*Schedule

// Sorted returns them by name.
func (s Schedules) Sorted() []*Schedule {
	list := make([]*Schedule, 0, len(s))
	for _, name := range slices.Sorted(maps.Keys(s)) {
		list = append(list, s[name])
	}
	return list
}

// foldSchedule takes a fact about a schedule.
func foldSchedule(s *State, f *Fact, name string) error {
	if b, ok := f.Body.(*ScheduleAdopted); ok {
		return adoptSchedule(s, f, b)
	}
	known := s.Schedules[name]
	if known == nil {
		return fmt.Errorf("%w: %s of schedule %q, which is not known", ErrImpossible, f.Body.Name(), name)
	}
	next := known.clone()
	if err := next.fold(f); err != nil {
		return fmt.Errorf("schedule %q: %w", name, err)
	}
	putSchedule(s, next)
	return nil
}

func putSchedule(s *State, x *Schedule) {
	s.Schedules[x.Name] = x
	s.touchPart(KindSchedule, x.Name)
}

// clone returns a copy that shares no memory that a fold changes.
func (s *Schedule) clone() *Schedule {
	c := *s
	c.Running, c.Fires = slices.Clone(s.Running), slices.Clone(s.Fires)
	return &c
}

func adoptSchedule(s *State, f *Fact, b *ScheduleAdopted) error {
	known := s.Schedules[b.Schedule]
	again := known != nil && known.Offset == b.Offset
	if b.Offset <= s.Partition.SchedulesOffset && !again || known == nil && len(b.Body) == 0 {
		return fmt.Errorf("%w: schedule %q is adopted from offset %d after offset %d", ErrImpossible, b.Schedule, b.Offset, s.Partition.SchedulesOffset)
	}
	s.Partition.SchedulesOffset = max(s.Partition.SchedulesOffset, b.Offset)
	if len(b.Body) == 0 {
		delete(s.Schedules, b.Schedule)
		s.touchPart(KindSchedule, b.Schedule)
		return nil
	}
	next := &Schedule{Name: b.Schedule, Began: b.Offset}
	if known != nil {
		next = known.clone()
	}
	next.Offset, next.Body, next.Next, next.NextAt = b.Offset, b.Body, b.Next, f.Time
	putSchedule(s, next)
	return nil
}

func (s *Schedule) fold(f *Fact) error {
	switch b := f.Body.(type) {
	case *ScheduleFired:
		return s.fired(f, b)
	case *SchedulePassed:
		s.passed(f, b)
	case *ScheduleTaskEnded:
		return s.taskEnded(b)
	case *ScheduleCancelRequested:
		return s.cancelRequested(b)
	case *SchedulePaused:
		if s.Paused != nil {
			return fmt.Errorf("%w: it is paused twice", ErrImpossible)
		}
		s.Paused = &Paused{By: b.By, Since: f.Time, Reason: b.Reason}
	case *ScheduleResumed:
		if s.Paused == nil {
			return fmt.Errorf("%w: it is resumed and not paused", ErrImpossible)
		}
		s.Paused, s.Next, s.NextAt = nil, b.Next, f.Time
	}
	return nil
}

func (s *Schedule) fired(f *Fact, b *ScheduleFired) error {
	if s.HasFired(b.Due) || s.Paused != nil && b.Request == "" {
		return fmt.Errorf("%w: the due time %s leads to a task again, or while the schedule is paused", ErrImpossible, b.Due)
	}
	fire := ScheduleFire{Due: b.Due, Task: b.Task, At: f.Time, Request: b.Request}
	s.Running = append(s.Running, fire)
	if s.Fires = append(s.Fires, fire); len(s.Fires) > MaxScheduleFires {
		s.Fires = s.Fires[len(s.Fires)-MaxScheduleFires:]
	}
	s.dequeue(b.Due)
	s.Previous = max(s.Previous, b.Due)
	s.Next, s.NextAt, s.InRow = b.Next, f.Time, 0
	s.Fired++
	return nil
}

func (s *Schedule) passed(f *Fact, b *SchedulePassed) {
	s.Next, s.NextAt, s.InRow = b.Next, f.Time, b.InRow
	s.dequeue(b.Due)
	switch b.Why {
	case PassedOverlap:
		s.Skipped += int64(b.Count)
	case PassedQueued:
		s.Queued, s.Cancels = b.Due, b.Cancels
	case PassedMissed:
		s.Missed += int64(b.Count)
	case PassedFailed:
		s.Failed += int64(b.Count)
	}
}

// dequeue notes that a due time does not wait any longer, if it did.
func (s *Schedule) dequeue(due Instant) {
	if s.Queued == due {
		s.Queued, s.Cancels = 0, false
	}
}

func (s *Schedule) cancelRequested(b *ScheduleCancelRequested) error {
	i := slices.IndexFunc(s.Running, func(f ScheduleFire) bool { return f.Task == b.Task && f.CancelledFor == 0 })
	if i < 0 || s.Queued != b.Due || !s.Cancels {
		return fmt.Errorf("%w: task %q is asked to cancel for %s, and is not running, was asked before, or nothing waits for it", ErrImpossible, b.Task, b.Due)
	}
	s.Running[i].CancelledFor = b.Due
	return nil
}

func (s *Schedule) taskEnded(b *ScheduleTaskEnded) error {
	is := func(f ScheduleFire) bool { return f.Task == b.Task }
	if !slices.ContainsFunc(s.Running, is) {
		return fmt.Errorf("%w: task %q has ended and was not running", ErrImpossible, b.Task)
	}
	s.Running = slices.DeleteFunc(s.Running, is)
	if i := slices.IndexFunc(s.Fires, is); i >= 0 {
		s.Fires[i].State, s.Fires[i].Reason = b.State, b.Reason
	}
	if b.State == EndRejected {
		s.Failed++
	}
	return nil
}

// SubmissionRecord returns the record of a submission of the engine itself, for the task's home partition of <ns>.submissions.
func SubmissionRecord(task string, submission []byte, s Subject) Record {
	w := newRecordWriter(len(submission)+attributeBytes(s)+len(task), attributeCount(s))
	w.B = append(w.B, submission...)
	value := len(w.B)
	w.Literal(s.ID)
	w.attributes(s, []byte(TypeSubmission))
	return w.record(task, value)
}

// ScheduleCancel is the request that a ScheduleCancelRequested leads to. Its ID is the task of the due time that waits, so the request is the same
// whoever sends it, and however often.
func ScheduleCancel(b *ScheduleCancelRequested) Request {
	return Request{
		Kind: RequestCancel, ID: ScheduleTask(b.Schedule, b.Due), Task: b.Task, By: ScheduleKey(b.Schedule), ScheduleBegan: b.Began,
		Reason: fmt.Sprintf("the due time %s of the schedule waits for its end", b.Due),
	}
}

// EncodeTaskEnd returns the record that tells what started a task how it ended, for the home partition of its key in <ns>.reports.
func EncodeTaskEnd(e TaskEnd, s Subject) (Record, error) {
	key := ScheduleKey(e.Schedule)
	return encode(e, key, TypeTaskEnd, key, s)
}

// EncodeScheduleRequest returns the record of a request about a schedule, of one of the types of these, for <ns>.reports.
func EncodeScheduleRequest(q ScheduleRequest, kind string, s Subject) (Record, error) {
	key := ScheduleKey(q.Schedule)
	return encode(q, key, kind, key, s)
}
