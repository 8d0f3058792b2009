package supervisor

import (
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// ScheduleRecord is the latest record of a schedule in the definitions. Body is its object, nil if it was deleted.
type ScheduleRecord struct {
	Schedule string
	Offset   int64
	Body     []byte
}

// schedules submits the tasks of the schedules whose home is the partition. A schedule is part of the state: a fact adopts its definition, and
// the fact that a due time leads to a task is durable before the submission leaves (INV8). So a due time leads to one task, whoever owns the
// partition: the submission may be sent twice, and the second is a duplicate. The end of a task comes back as a report.
type schedules struct {
	*core
	// known are the schedules that the node has read, in the order of their offsets. They outlive epochs.
	known []ScheduleRecord
	// definitions holds what was read from the bodies in the state, with the offsets of these.
	definitions map[string]readSchedule
}

type readSchedule struct {
	offset     int64
	definition *events.ScheduleDefinition
}

const (
	// missedAtOnce bounds the due times that one fact passes over. More come with the next batch.
	missedAtOnce = 500
	// firedAtOnce bounds the facts of one schedule in a batch, so that an interval of a second does not starve the rest.
	firedAtOnce = 50
)

// SetSchedules tells the owner the latest records of the schedules whose home is its partition, in the order of their offsets.
func (o *Owner) SetSchedules(now events.Instant, list []ScheduleRecord) {
	o.enter(now)
	o.schedules.known = list
	o.deciding = true
}

// adopt brings the schedules that are newer than those of the partition into it. The definitions are one partition, so an owner that knows a
// record knows all before it.
func (s *schedules) adopt() error {
	for _, r := range s.known {
		if r.Offset <= s.state.Partition.SchedulesOffset || len(r.Body) == 0 && s.state.Schedules[r.Schedule] == nil {
			continue
		}
		if s.full() {
			return nil
		}
		body := &events.ScheduleAdopted{Schedule: r.Schedule, Offset: r.Offset, Body: r.Body}
		if len(r.Body) > 0 {
			var err error
			if body.Next, err = s.nextOf(r); err != nil {
				body.Next = 0 // this build cannot say when it is due; the definitions were checked when they were read
			}
		}
		if err := s.record(&events.Fact{Body: body, Cause: events.CauseDefinition(r.Offset)}, nil); err != nil {
			return err
		}
	}
	return nil
}

// nextOf returns the next due time of a schedule under a new definition. If that is due at the same times as the one before, the due time
// that comes next stays, even if it has passed.
func (s *schedules) nextOf(r ScheduleRecord) (events.Instant, error) {
	d, err := (&events.Schedule{Name: r.Schedule, Body: r.Body}).Definition()
	if err != nil {
		return 0, err
	}
	if known := s.state.Schedules[r.Schedule]; known != nil {
		was, err := known.Definition()
		if err == nil && was.Cron == d.Cron && was.Every == d.Every && was.TimeZone == d.TimeZone && known.Next != 0 {
			return known.Next, nil
		}
	}
	return s.sched.NextDue(d, s.stamp())
}

// definition returns the definition of a schedule.
func (s *schedules) definition(x *events.Schedule) (*events.ScheduleDefinition, error) {
	if r, ok := s.definitions[x.Name]; ok && r.offset == x.Offset {
		return r.definition, nil
	}
	d, err := x.Definition()
	if err != nil {
		return nil, err
	}
	if s.definitions == nil {
		s.definitions = map[string]readSchedule{}
	}
	s.definitions[x.Name] = readSchedule{x.Offset, d}
	return d, nil
}

// fire decides about the due times that have come.
func (s *schedules) fire() error {
	for _, x := range s.state.Schedules.Sorted() {
		for range firedAtOnce {
			if s.full() {
				return nil
			}
			if body, err := s.next(x.Name); err != nil || body == nil {
				if err != nil {
					return err
				}
				break
			} else if err := s.decide(x.Name, body); err != nil {
				return err
			}
		}
	}
	return nil
}

// decide records a fact that a timer of a schedule made due.
func (s *schedules) decide(name string, body events.Body) error {
	cause := events.CauseTimer(events.ScheduleKey(name), 1, "", 0, events.TimerDue)
	err := s.record(&events.Fact{Body: body, Cause: cause}, nil)
	if fired, ok := body.(*events.ScheduleFired); ok && errors.Is(err, events.ErrTooLarge) {
		return s.record(&events.Fact{Body: failedFire(name, fired.Due, fired.Next, err), Cause: cause}, nil)
	}
	return err
}

// next returns the next fact about a schedule, nil if nothing is due.
func (s *schedules) next(name string) (events.Body, error) {
	x, now := s.state.Schedules[name], s.stamp()
	d, err := s.definition(x)
	if err != nil || x.Paused != nil {
		return nil, nil // it was checked when it was adopted
	}
	if x.NextAt > now { // the time of the partition was corrected
		next, err := s.sched.NextDue(d, now)
		return &events.ScheduleAdopted{Schedule: name, Offset: x.Offset, Body: x.Body, Next: next}, err
	}
	if x.Queued != 0 && len(x.Running) == 0 {
		return s.occur(x, d, x.Queued, x.Next), nil
	}
	if task := x.ToCancel(); task != "" {
		return &events.ScheduleCancelRequested{Schedule: name, Task: task, Due: x.Queued, Began: x.Began}, nil
	}
	if x.Next == 0 || s.sched.FireAt(d, x.Next) > now {
		return nil, nil
	}
	after, err := s.sched.NextDue(d, x.Next)
	if err != nil {
		return nil, err
	}
	late := func(due events.Instant) bool { return now.Sub(s.sched.FireAt(d, due)) > d.CatchUp.Std() }
	has := func(due events.Instant) bool { return due != 0 && s.sched.FireAt(d, due) <= now }
	pass := &events.SchedulePassed{Schedule: name, Due: x.Next, Count: 1, Next: after, InRow: x.InRow}
	switch {
	case late(x.Next):
		pass.Why = events.PassedMissed
		return pass, s.extend(d, pass, func() bool { return has(pass.Next) && late(pass.Next) })
	case x.HasFired(x.Next):
		pass.Why = events.PassedFired
		return pass, nil
	case d.Overlap == events.OverlapCancel && has(after), d.Overlap == events.OverlapSkip && has(after) && !s.blocked(x, d):
		pass.Why = events.PassedOverlap // of several, the last leads to a task
		return pass, s.extend(d, pass, func() bool {
			following, err := s.sched.NextDue(d, pass.Next)
			return err == nil && has(following)
		})
	case s.blocked(x, d):
		s.overlaps(x, d, pass)
		return pass, nil
	}
	return s.occur(x, d, x.Next, after), nil
}

// overlaps completes the fact that a due time has come while a task has not ended: the due time waits or is passed over, or it takes the place of the
// one that waits.
func (*schedules) overlaps(x *events.Schedule, d *events.ScheduleDefinition, pass *events.SchedulePassed) {
	if d.Overlap.Waits() && x.Queued == 0 {
		pass.Why, pass.Cancels = events.PassedQueued, d.Overlap == events.OverlapCancel
		return
	}
	pass.Why = events.PassedOverlap
	pass.InRow++
	if d.Overlap == events.OverlapCancel {
		pass.Due, pass.Next = x.Queued, x.Next
	}
}

// extend adds the due times to a SchedulePassed that are passed over for the same reason.
func (s *schedules) extend(d *events.ScheduleDefinition, pass *events.SchedulePassed, more func() bool) (err error) {
	for pass.Count < missedAtOnce && more() {
		pass.Count++
		if pass.Next, err = s.sched.NextDue(d, pass.Next); err != nil {
			return err
		}
	}
	return nil
}

// blocked says whether the tasks of the schedule that have not ended keep the next one from starting.
func (*schedules) blocked(x *events.Schedule, d *events.ScheduleDefinition) bool {
	if d.Overlap == events.OverlapAllow {
		return len(x.Running) >= events.MaxScheduleRunning
	}
	return len(x.Running) > 0
}

// occur returns the fact that a due time leads to a task, or that it cannot.
func (s *schedules) occur(x *events.Schedule, d *events.ScheduleDefinition, due, next events.Instant) events.Body {
	if x.HasFired(due) {
		return &events.SchedulePassed{Schedule: x.Name, Due: due, Count: 1, Why: events.PassedFired, Next: next}
	}
	previous := x.Previous
	if previous >= due {
		previous = 0
	}
	sub, err := s.sched.Occurrence(d, due, previous)
	if err != nil {
		return failedFire(x.Name, due, next, err)
	}
	sub.ScheduleBegan = x.Began
	raw, err := events.Marshal(sub)
	if limit := s.settings().SubmissionBytes; err == nil && len(raw) > limit {
		err = fmt.Errorf("the submission has %d bytes; %d are allowed", len(raw), limit)
	}
	if err == nil {
		_, err = events.ParseSubmission(raw)
	}
	if err != nil {
		return failedFire(x.Name, due, next, err)
	}
	return &events.ScheduleFired{Schedule: x.Name, Due: due, Next: next, Task: sub.ID, Submission: raw}
}

// failedFire says that no submission can be made for a due time.
func failedFire(name string, due, next events.Instant, err error) *events.SchedulePassed {
	return &events.SchedulePassed{Schedule: name, Due: due, Count: 1, Why: events.PassedFailed, Next: next, Reason: events.Clip(err.Error(), maxDetail)}
}
