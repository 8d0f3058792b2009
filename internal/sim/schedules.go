package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// schedules are the schedules of a namespace. An operator applies, changes and deletes them, and each node hears of that late.
type schedules struct {
	w *World
	// records are those of the definitions, by their offsets, which begin at 1.
	records []supervisor.ScheduleRecord
	// heard is how many of them each node has read, by its index.
	heard    map[int]int
	requests int
	// fired are the tasks of each schedule, from all times that it existed, and lost those whose start or end is given up.
	fired map[string][]firing
	lost  map[string]bool
	// refused are the tasks whose submission has a dead letter in a namespace that was copied.
	refused map[string]bool
}

// firing is a due time that led to a task.
type firing struct {
	due  events.Instant
	task string
	fact *events.Fact
}

// maxSchedules bounds the schedules of a world.
const maxSchedules = 3

func newWorldSchedules(w *World) *schedules {
	return &schedules{w: w, heard: map[int]int{}, fired: map[string][]firing{}, lost: map[string]bool{}, refused: map[string]bool{}}
}

// plan applies the schedules, and spreads what operators do with them over the time of chaos.
func (s *schedules) plan() {
	w := s.w
	for i := range min(w.count(w.faults.Schedules), maxSchedules) {
		name := "s" + strconv.Itoa(i+1)
		s.apply(name, s.draw(name))
		for range w.rng.IntN(8) {
			w.chaosAt(func() { s.operate(name) })
		}
	}
}

// draw draws the definition of a schedule.
func (s *schedules) draw(name string) *events.ScheduleDefinition {
	r := s.w.rng
	seconds := func(least, n int) events.Duration {
		return events.Duration(time.Duration(least+r.IntN(n)) * time.Second)
	}
	d := &events.ScheduleDefinition{
		Schedule: name, Workflow: []string{"one", "wide", "none", "lone", "dag"}[r.IntN(5)],
		Every: seconds(1, 6), Overlap: events.Overlaps()[r.IntN(4)], CatchUp: seconds(1, 30),
		Input: json.RawMessage(`{"n":1,"due":"${ schedule.due }"}`),
	}
	if s.w.chance(s.w.faults.LateStarts) {
		d.Workflow = []string{"firm", "few"}[r.IntN(2)] // they have a remember_for
	}
	if r.IntN(3) == 0 {
		d.Jitter = seconds(1, 3)
	}
	switch r.IntN(16) {
	case 0, 1:
		d.Input = json.RawMessage(`{"n":"no number"}`) // not of the schema of dag
	case 2:
		d.Input = json.RawMessage(`{"n":"${ schedule.due - 1 }"}`) // fails
	}
	return d
}

// apply records a definition, or with nil a deletion, and lets the nodes hear of it.
func (s *schedules) apply(name string, d *events.ScheduleDefinition) {
	r := supervisor.ScheduleRecord{Schedule: name, Offset: int64(len(s.records)) + 1}
	if d != nil {
		var err error
		if r.Body, err = events.Marshal(d); err != nil {
			s.w.fail("a schedule cannot be encoded: %v", err)
		}
	}
	s.records = append(s.records, r)
	s.w.note("schedule %s, record %d: %s", name, r.Offset, r.Body)
	for _, n := range s.w.nodes {
		s.publishTo(n, s.w.rng.IntN(8000))
	}
}

// publishTo lets a node read all records, d milliseconds from now. (A starting node reads them at once.)
func (s *schedules) publishTo(n *node, d int) {
	known, life := len(s.records), n.life
	s.w.after(1+d+s.w.lag(), func() {
		n.receive(life, func() {
			if n.left || known <= s.heard[n.index] {
				return
			}
			s.heard[n.index] = known
			for _, slot := range n.slots {
				slot.owner.SetSchedules(slot.now(), s.of(slot.part.id, known))
				slot.execute()
			}
		})
	})
}

// boot tells an owner of a process that starts the schedules of its partition.
func (s *schedules) boot(slot *slot) {
	s.heard[slot.node.index] = len(s.records)
	if len(s.records) > 0 {
		slot.owner.SetSchedules(slot.now(), s.of(slot.part.id, len(s.records)))
	}
}

// of returns the latest records of the schedules whose home is the partition, of the first known records, and their latest deletions.
func (s *schedules) of(partition int32, known int) (list []supervisor.ScheduleRecord) {
	for i, r := range s.records[:known] {
		replaced := slices.ContainsFunc(s.records[i+1:known], func(later supervisor.ScheduleRecord) bool {
			return later.Schedule == r.Schedule && (len(r.Body) > 0 || len(later.Body) == 0)
		})
		if !replaced && events.Home(events.ScheduleKey(r.Schedule), s.w.opt.Partitions) == partition {
			list = append(list, r)
		}
	}
	return list
}

// latest returns the latest record of a schedule.
func (s *schedules) latest(name string) (last supervisor.ScheduleRecord) {
	for _, r := range s.records {
		if r.Schedule == name {
			last = r
		}
	}
	return last
}

// operate changes a schedule, or asks something of it.
func (s *schedules) operate(name string) {
	switch r := s.w.rng; r.IntN(8) {
	case 0:
		s.apply(name, s.draw(name))
	case 1:
		old, again := s.latest(name), s.w.chaosAt
		if r.IntN(2) == 0 { // while tasks of the deleted one run
			again = func(do func()) {
				s.w.after(4000+r.IntN(8000), func() {
					if !s.w.healed {
						do()
					}
				})
			}
		}
		s.apply(name, nil)
		again(func() {
			d, was := new(events.ScheduleDefinition), s.fired[name]
			if err := json.Unmarshal(old.Body, d); err != nil || r.IntN(2) == 0 { // or it is applied as it was
				d = s.draw(name)
			}
			s.apply(name, d)
			for range min(len(was), 2) {
				s.w.after(s.w.rng.IntN(20_000), func() { s.trigger(name, was[s.w.rng.IntN(len(was))].due) })
			}
			for i := range 4 {
				s.w.after(4000*i+s.w.rng.IntN(4000), func() { s.cancelStranger(name, was) })
			}
		})
	case 2, 3, 4:
		s.ask(events.TypeSchedulePause, name)
		s.w.chaosAt(func() { s.ask(events.TypeScheduleResume, name) })
	default:
		s.trigger(name, s.w.now+1) // no multiple of a second: an instant that is not due otherwise
	}
}

// trigger starts a task of a schedule for a due time, which may have led to one before, perhaps of a deleted schedule of that name.
func (s *schedules) trigger(name string, due events.Instant) {
	s.send(events.TypeScheduleTrigger, events.ScheduleRequest{Schedule: name, Due: due, Overlap: append(events.Overlaps(), "")[s.w.rng.IntN(5)]})
}

// cancelStranger lets a schedule start the task of a due time that a deleted one of its name has started and that runs still, and then asks for
// another one, for which what runs shall be cancelled.
func (s *schedules) cancelStranger(name string, was []firing) {
	for _, f := range slices.Backward(was) {
		if t, _ := s.w.parts[events.Home(f.task, s.w.opt.Partitions)].state.Task(f.task); t != nil && !t.State.Ended() {
			s.send(events.TypeScheduleTrigger, events.ScheduleRequest{Schedule: name, Due: f.due, Overlap: events.OverlapAllow})
			for i := range events.Instant(3) {
				s.send(events.TypeScheduleTrigger, events.ScheduleRequest{Schedule: name, Due: s.w.now + 1 + i, Overlap: events.OverlapCancel})
			}
			return
		}
	}
}

func (s *schedules) ask(kind, name string) { s.send(kind, events.ScheduleRequest{Schedule: name}) }

// send sends a request about a schedule, sometimes twice.
func (s *schedules) send(kind string, q events.ScheduleRequest) {
	w, name := s.w, q.Schedule
	s.requests++
	q.ID = fmt.Sprintf("sq%d", s.requests)
	r, err := events.EncodeScheduleRequest(q, kind, events.Subject{ID: q.ID, Source: "/clients", Time: w.now})
	if err != nil {
		w.fail("a request about a schedule cannot be encoded: %v", err)
		return
	}
	key := events.ScheduleKey(name)
	m := &meta{Input: Input{Kind: InputSchedule, Task: key, Schedule: q, ScheduleVerb: kind}}
	for range 1 + w.bit(w.faults.Duplicate) {
		w.after(w.rng.IntN(300), func() { w.clients.home(key).inputs.put(events.Reports, r, m) })
	}
}

// heal makes the schedules rest: what they have begun ends, and the next due time is far away.
func (s *schedules) heal() {
	for i := range maxSchedules {
		name := "s" + strconv.Itoa(i+1)
		if r := s.latest(name); len(r.Body) > 0 {
			d := s.draw(name)
			d.Every, d.Jitter = events.Duration(100*365*24*time.Hour), 0
			s.apply(name, d)
		}
	}
	for _, n := range s.w.nodes {
		s.publishTo(n, 0)
	}
}

// startLands lands the submission of the task of a due time.
func (s *schedules) startLands(r *events.Record) {
	sub, err := events.ParseSubmission(r.Value)
	if err != nil {
		s.w.fail("the submission of a schedule cannot be read: %v", err)
		return
	}
	m := &meta{Input: Input{Kind: InputSubmission, Task: sub.ID}, workflow: sub.Workflow}
	m.Content, _ = sub.ContentHash()
	var input struct{ N any }
	_ = json.Unmarshal(sub.Input, &input)
	_, number := input.N.(float64)
	m.unfit = m.workflow == "dag" && !number
	m.tooLarge = len(r.Value) > s.w.cfg.Settings.SubmissionBytes
	s.w.parts[r.Partition].inputs.put(events.Submissions, *r, m)
}

// endLands lands what tells a schedule how its task ended.
func (s *schedules) endLands(r *events.Record) {
	var end events.TaskEnd
	if err := json.Unmarshal(r.Value, &end); err != nil {
		s.w.fail("the end of a task cannot be read: %v", err)
		return
	}
	s.w.parts[r.Partition].inputs.put(events.Reports, *r, &meta{Input: Input{Kind: InputTaskEnd, Task: events.ScheduleKey(end.Schedule), End: end}})
}

// cancelLands lands the request of a schedule that its task be cancelled.
func (s *schedules) cancelLands(r *events.Record) {
	q := events.Request{}
	if err := json.Unmarshal(r.Value, &q); err != nil {
		s.w.fail("the request of a schedule cannot be read: %v", err)
		return
	}
	q.Kind = events.RequestCancel
	s.w.parts[r.Partition].inputs.put(events.Reports, *r, &meta{Input: Input{Kind: InputRequest, Task: q.Task, Request: q}})
}

// scheduleEffects follows the facts of a partition that start tasks of schedules, and tell schedules how tasks ended.
type scheduleEffects struct {
	p *partition
	// of is the schedule of each task, and owed the destination of each effect of a fact, by the ID of the fact and the kind.
	of   map[string]string
	owed map[string]string
	// accepted has the tasks that schedules started, each with the offset at which its schedule began. A due time starts one task, however often its
	// submission is sent.
	accepted map[string]bool
	// born is the offset of the fact that brought each schedule into the partition, and began the record of the definitions that it came from.
	born, began map[string]int64
}

// after takes the next accepted fact of the partition.
func (e *scheduleEffects) after(f *events.Fact) {
	s, w := e.p.w.schedules, e.p.w
	switch b := f.Body.(type) {
	case *events.Submitted:
		if delete(e.of, f.Task); b.Schedule != "" {
			e.of[f.Task] = b.Schedule
			once := onceOf(f.Task, b.ScheduleBegan)
			if e.accepted[once] && !w.clocks.set() {
				w.fail("the task %q of schedule %q, which began at %d, is accepted again after it was forgotten", f.Task, b.Schedule, b.ScheduleBegan)
			}
			e.accepted[once] = true
		}
	case *events.TaskProcessed, *events.TaskUndone, *events.TaskTerminated:
		if name := e.of[f.Task]; name != "" {
			e.owes(f, events.EffectEnd, events.Reports, events.ScheduleKey(name))
		}
	case *events.InputRejected:
		if b.Schedule != "" {
			e.owes(f, events.EffectEnd, events.Reports, events.ScheduleKey(b.Schedule))
			w.saw(sawScheduleRejected)
		}
	case *events.ScheduleFired:
		e.owes(f, events.EffectStart, events.Submissions, b.Task)
		s.fired[b.Schedule] = append(s.fired[b.Schedule], firing{b.Due, b.Task, f})
	case *events.ScheduleCancelRequested:
		e.owes(f, events.EffectCancel, events.Reports, b.Task)
	case *events.EffectFailed:
		if of := e.p.facts[events.FactID(&events.Fact{Epoch: b.Of.Epoch, Sequence: b.Of.Sequence}, e.p.id)]; of != nil {
			s.givenUp(of, b)
		}
	}
}

// onceOf names a task of a schedule that began there.
func onceOf(task string, began int64) string { return fmt.Sprintf("%s %d", task, began) }

// givenUp notes that the start or the end of a task was refused by the broker.
func (s *schedules) givenUp(of *events.Fact, b *events.EffectFailed) {
	switch body := of.Body.(type) {
	case *events.ScheduleFired:
		s.lost[body.Task] = true
		s.w.saw(sawStartRefused)
	case *events.InputRejected:
		s.lost[body.Submission] = s.lost[body.Submission] || b.Kind == events.EffectEnd
	default:
		s.lost[of.Task] = s.lost[of.Task] || b.Kind == events.EffectEnd
	}
}

// dueText is a due time as it stands in the ID of its task.
func dueText(due events.Instant) string {
	return strings.Replace(due.String(), ".000Z", "Z", 1)
}

func (e *scheduleEffects) owes(f *events.Fact, kind string, in events.Input, key string) {
	to := string(in) + "/" + strconv.Itoa(int(events.Home(key, e.p.w.opt.Partitions)))
	e.owed[events.FactID(f, e.p.id)+" "+kind] = to
	e.p.effects.owed = append(e.p.effects.owed, debt{f.Position(), e.p.effects.key(f.Position(), kind), f, to})
}

// leaves checks that a start or an end says what its fact says.
func (e *scheduleEffects) leaves(f *events.Fact, a *supervisor.Send) string {
	if to := e.owed[events.FactID(f, e.p.id)+" "+a.Kind]; to != a.Topic+"/"+strconv.Itoa(int(a.Record.Partition)) {
		return fmt.Sprintf("it goes to %s/%d and not to %q", a.Topic, a.Record.Partition, to)
	}
	if b, ok := f.Body.(*events.ScheduleFired); ok && (string(a.Record.Value) != string(b.Submission) || string(a.Record.Key) != b.Task) {
		return "the submission is not that of its fact"
	}
	if b, ok := f.Body.(*events.ScheduleCancelRequested); ok {
		want := events.Request{ID: b.Schedule + "/" + dueText(b.Due), Kind: events.RequestCancel, Task: b.Task, ScheduleBegan: b.Began}
		var q events.Request
		if err := json.Unmarshal(a.Record.Value, &q); err != nil || q.ID != want.ID || q.Task != want.Task || q.ScheduleBegan != want.ScheduleBegan || a.Record.Header(events.HeaderType) != want.Kind.Type() {
			return "the request is not that of its fact"
		}
	}
	return ""
}
