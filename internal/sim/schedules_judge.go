package sim

import (
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// judge checks a fact about a schedule against the state before it, and counts what happens to schedules.
func (e *scheduleEffects) judge(f *events.Fact) {
	why := ""
	switch b := f.Body.(type) {
	case *events.ScheduleAdopted:
		why = e.adopts(b)
	case *events.ScheduleFired:
		why = e.fires(f, b)
	case *events.SchedulePassed:
		why = e.passes(f, b)
	case *events.ScheduleTaskEnded:
		why = e.ends(f, b)
	case *events.ScheduleCancelRequested:
		why = e.cancels(b)
	case *events.SchedulePaused:
		e.p.w.saw(sawSchedulePaused)
		why = e.asked(f, events.TypeSchedulePause, b.Schedule, b.Request)
	case *events.ScheduleResumed:
		why = e.asked(f, events.TypeScheduleResume, b.Schedule, b.Request)
	}
	if why != "" {
		e.p.w.fail("%s in partition %d: %s", f.Body.Name(), e.p.id, why)
	}
}

// definition returns the definition that the partition has of a schedule, and the schedule.
func (e *scheduleEffects) definition(name string) (*events.Schedule, *events.ScheduleDefinition) {
	x := e.p.state.Schedules[name]
	if x == nil {
		return nil, nil // the fold refuses the fact
	}
	d, err := x.Definition()
	if err != nil {
		e.p.w.fail("schedule %q cannot be read: %v", name, err)
	}
	return x, d
}

func (e *scheduleEffects) adopts(b *events.ScheduleAdopted) string {
	w, x := e.p.w, e.p.state.Schedules[b.Schedule]
	if events.Home(events.ScheduleKey(b.Schedule), w.opt.Partitions) != e.p.id {
		return "its home is another partition"
	}
	if b.Offset < 1 || b.Offset > int64(len(w.schedules.records)) {
		return "the definitions have no such record"
	}
	switch r := w.schedules.records[b.Offset-1]; {
	case r.Schedule != b.Schedule || string(r.Body) != string(b.Body):
		return "it says something else than the record of the definitions"
	case len(b.Body) == 0:
		w.saw(sawScheduleDeleted)
	case x == nil:
		e.born[b.Schedule], e.began[b.Schedule] = e.p.log.end()-1, b.Offset
	case x.Offset == b.Offset:
		w.saw(sawScheduleCorrected)
	case slices.ContainsFunc(w.schedules.records[x.Offset:b.Offset], func(r supervisor.ScheduleRecord) bool { return r.Schedule == b.Schedule && len(r.Body) == 0 }):
		return "it goes on with a schedule that was deleted before this record"
	default:
		w.saw(sawScheduleChanged)
	}
	return ""
}

// fires checks that a due time leads to one task, at its time, and beside no other one unless it may.
func (e *scheduleEffects) fires(f *events.Fact, b *events.ScheduleFired) string {
	x, d := e.definition(b.Schedule)
	if x == nil {
		return ""
	}
	w := e.p.w
	for _, was := range w.schedules.fired[b.Schedule] {
		if was.due == b.Due && e.p.at[was.fact] > e.born[b.Schedule] {
			return "the due time " + b.Due.String() + " leads to a task a second time"
		} else if was.due == b.Due {
			w.saw(sawScheduleAgain)
		}
	}
	overlap := d.Overlap
	switch queued := x.Queued == b.Due; {
	case b.Request != "":
		w.saw(sawScheduleTriggered)
		q, why := e.request(f, events.TypeScheduleTrigger, b.Schedule, b.Request)
		if why != "" || q.Due != b.Due {
			return "nobody triggered it at " + b.Due.String() + ": " + why
		}
		if q.Overlap != "" {
			overlap = q.Overlap
		}
	case !queued && b.Due != x.Next:
		return "the due time " + b.Due.String() + " is not the next one, " + x.Next.String()
	case !queued && f.Time < scheduler.FireAt(d, b.Due):
		return "its time has not come"
	case !queued && f.Time.Sub(scheduler.FireAt(d, b.Due)) > d.CatchUp.Std():
		return "its time is longer ago than catch_up"
	default:
		w.saw(sawScheduleFired)
		if was := w.schedules.fired[b.Schedule]; len(was) > 0 && was[len(was)-1].fact.Epoch != f.Epoch {
			w.saw(sawScheduleTakenOver)
		}
	}
	if live := e.live(b.Schedule); live != "" && overlap != events.OverlapAllow {
		return "the task " + live + " has not ended"
	}
	previous := x.Previous
	if previous >= b.Due {
		previous = 0
	}
	sub, err := scheduler.Occurrence(d, b.Due, previous)
	if err != nil {
		return "there is no submission for the due time: " + err.Error()
	}
	sub.ScheduleBegan = e.began[b.Schedule]
	if raw, err := events.Marshal(sub); err != nil || string(raw) != string(b.Submission) || sub.ID != b.Task {
		return "its submission is another than the definition says: " + string(b.Submission)
	}
	return ""
}

// live returns a task of the schedule that has not ended, by the folds of the partitions of its tasks. Those of a deleted one do not count.
func (e *scheduleEffects) live(name string) string {
	for _, was := range e.p.w.schedules.fired[name] {
		t, _ := e.p.w.parts[events.Home(was.task, e.p.w.opt.Partitions)].state.Task(was.task)
		if t != nil && !t.State.Ended() && t.ScheduleBegan == e.began[name] && e.p.at[was.fact] > e.born[name] {
			return was.task
		}
	}
	return ""
}

// passes checks the reason for which due times lead to no task.
func (e *scheduleEffects) passes(f *events.Fact, b *events.SchedulePassed) string {
	x, d := e.definition(b.Schedule)
	if x == nil {
		return ""
	}
	w := e.p.w
	if x.Paused != nil && b.Request == "" {
		return "it is paused"
	}
	late := func(due events.Instant) bool { return f.Time.Sub(scheduler.FireAt(d, due)) > d.CatchUp.Std() }
	last, after := b.Due, events.Instant(0)
	for range b.Count - 1 {
		last, _ = scheduler.NextDue(d, last)
	}
	if x.Queued == b.Due && b.Next != x.Next {
		return "a due time that waited changes the next one"
	}
	if after, _ = scheduler.NextDue(d, last); b.Request == "" && x.Queued != b.Due && (b.Due != x.Next || b.Next != after) {
		return "due times are left out: it passes " + b.Due.String() + " and goes on at " + b.Next.String()
	}
	switch b.Why {
	case events.PassedMissed:
		if w.saw(sawScheduleMissed); !late(last) {
			return "the due time " + last.String() + " is not too old"
		}
	case events.PassedQueued:
		if w.saw(sawScheduleQueued); len(x.Running) == 0 || x.Queued != 0 {
			return "nothing runs, or another due time is queued"
		}
		if b.Request == "" && b.Cancels != (d.Overlap == events.OverlapCancel) {
			return "the definition says otherwise whether what runs is cancelled"
		}
	case events.PassedOverlap:
		w.saw(sawScheduleSkipped)
		return e.skips(f, b, after)
	case events.PassedFired:
		if !x.HasFired(b.Due) {
			return "the due time led to no task"
		}
	case events.PassedFailed:
		w.saw(sawScheduleFailed)
		if sub, err := scheduler.Occurrence(d, b.Due, x.Previous); err == nil {
			sub.ScheduleBegan = e.began[b.Schedule]
			if raw, err := events.Marshal(sub); err == nil && len(raw) <= w.cfg.Settings.SubmissionBytes {
				return "its submission can be made"
			}
		}
	}
	return ""
}

// skips checks that a due time is passed over because a task runs, or a later due time has come. after is the due time behind those of the fact.
func (e *scheduleEffects) skips(f *events.Fact, b *events.SchedulePassed, after events.Instant) string {
	x, d := e.definition(b.Schedule)
	later := scheduler.FireAt(d, after) <= f.Time && (d.Overlap == events.OverlapSkip || d.Overlap == events.OverlapCancel)
	switch {
	case x.Queued == b.Due && (d.Overlap != events.OverlapCancel || scheduler.FireAt(d, x.Next) > f.Time):
		return "a due time that waits is passed over, and no later one has come that would cancel what runs"
	case x.Queued == b.Due:
		e.p.w.saw(sawScheduleReplaced)
	case len(x.Running) == 0 && !later:
		return "nothing runs, and no later due time has come"
	case d.Overlap.Waits() && x.Queued == 0 && !later:
		return "it could wait"
	}
	return ""
}

// cancels checks that a task of the schedule runs, and that a due time waits which wants it cancelled.
func (e *scheduleEffects) cancels(b *events.ScheduleCancelRequested) string {
	x, _ := e.definition(b.Schedule)
	if x == nil {
		return ""
	}
	e.p.w.saw(sawScheduleCancels)
	if x.Paused != nil || b.Began != e.began[b.Schedule] {
		return "it is paused, or began with another record"
	}
	for _, was := range e.p.w.schedules.fired[b.Schedule] {
		if was.task == b.Task && e.p.at[was.fact] > e.born[b.Schedule] {
			return ""
		}
	}
	return "it did not start the task"
}

// ends checks that a schedule hears the end of a task that has ended so, or was never accepted.
func (e *scheduleEffects) ends(f *events.Fact, b *events.ScheduleTaskEnded) string {
	in, _, o, ok := f.Cause.Input()
	if !ok || o >= e.p.inputs.of(in).end() {
		return "no report says so"
	}
	m := e.p.inputs.of(in).meta[o]
	if m.Kind != InputTaskEnd || m.End.Schedule != b.Schedule || m.End.Task != b.Task || m.End.State != b.State || m.End.Began != e.began[b.Schedule] {
		return "its report says something else"
	}
	e.p.w.saw(sawScheduleEnded)
	t, _ := e.p.w.parts[events.Home(b.Task, e.p.w.opt.Partitions)].state.Task(b.Task)
	if t != nil && b.State != events.EndRejected && string(t.State) != b.State {
		return "the task is " + string(t.State)
	}
	return ""
}

// request returns the request about a schedule that caused a fact.
func (e *scheduleEffects) request(f *events.Fact, kind, name, id string) (q events.ScheduleRequest, why string) {
	in, _, o, ok := f.Cause.Input()
	if !ok || o >= e.p.inputs.of(in).end() {
		return q, "no request says so"
	}
	m := e.p.inputs.of(in).meta[o]
	if m.Kind != InputSchedule || m.ScheduleVerb != kind || m.Schedule.Schedule != name || m.Schedule.ID != id {
		return q, "its request says something else"
	}
	return m.Schedule, ""
}

func (e *scheduleEffects) asked(f *events.Fact, kind, name, id string) string {
	_, why := e.request(f, kind, name, id)
	return why
}

// needsScheduleFact says why an input about a schedule cannot be passed without a fact, or "" if it can. What landed before the schedule came
// into the partition may have been judged when there was none, or another one of the same name.
func (j *Judge) needsScheduleFact(x *Input) string {
	s := j.State.Schedules[events.ScheduleOfKey(x.Task)]
	if s == nil || x.Early {
		return ""
	}
	q := &x.Schedule
	switch {
	case x.Kind == InputTaskEnd:
		if s.Runs(x.End.Task) && s.Began == x.End.Began {
			return "the schedule waits for the end of its task"
		}
	case x.ScheduleVerb == events.TypeSchedulePause && s.Paused == nil, x.ScheduleVerb == events.TypeScheduleResume && s.Paused != nil:
		return "the schedule does not follow it"
	case x.ScheduleVerb == events.TypeScheduleTrigger && !s.HasFired(q.Due) && s.Queued != q.Due && !s.Granted(q.ID) && !displaces(s):
		return "it led to no task"
	}
	return ""
}

// displaces says whether a later due time may have taken the place of the one that waited when a trigger of it was judged.
func displaces(s *events.Schedule) bool {
	d, err := s.Definition()
	return err == nil && d.Overlap == events.OverlapCancel
}

// unrest says what a schedule of the partition still has to do.
func (e *scheduleEffects) unrest() (left []string) {
	w := e.p.w
	for _, r := range w.schedules.of(e.p.id, len(w.schedules.records)) {
		x := e.p.state.Schedules[r.Schedule]
		if x == nil && len(r.Body) > 0 || x != nil && x.Offset < r.Offset {
			left = append(left, "schedule "+r.Schedule+" is not adopted")
			continue
		}
		if x == nil {
			continue
		}
		for _, run := range x.Running {
			t, _ := w.parts[events.Home(run.Task, w.opt.Partitions)].state.Task(run.Task)
			if waits := t != nil && !t.State.Ended(); !waits && !w.schedules.lost[run.Task] && w.opt.Faults.Trim == 0 {
				left = append(left, "schedule "+r.Schedule+" waits for the end of "+run.Task)
			}
		}
		if x.Queued != 0 && len(x.Running) == 0 && x.Paused == nil {
			left = append(left, "a due time of schedule "+r.Schedule+" is queued")
		}
	}
	return left
}

// started checks that each due time led to a task that was accepted, or to a rejection, or that its start was given up.
func (s *schedules) started() {
	for name, list := range s.fired {
		for _, x := range list {
			home := s.w.parts[events.Home(x.task, s.w.opt.Partitions)]
			rejected := s.refused[x.task] || slices.ContainsFunc(home.inputs.dead, func(d deadLetter) bool { return d.in == events.Submissions && string(d.record.Key) == x.task })
			if home.inputs.content[x.task] == nil && !rejected && !s.lost[x.task] && s.w.opt.Faults.Trim == 0 && !s.w.outage.holds("dlq."+string(events.Submissions)) && !s.w.outage.holds(string(events.Submissions)) {
				s.w.fail("a due time of schedule %q led to the task %q, which was never submitted", name, x.task)
			}
		}
	}
}
