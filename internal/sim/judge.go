package sim

import (
	"iter"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// Judge holds the checks that the simulator and internal/sim/model share: what an accepted fact may say about the inputs of
// its partition. It looks at the fact before it is folded.
type Judge struct {
	Witness
	Objects Objects
	// State is the fold of the log before the fact.
	State *events.State
	// ID is the partition, one of Partitions.
	ID, Partitions int32
	// Off are the rules of the owner that are switched off.
	Off  supervisor.Rule
	Fail func(format string, args ...any)
}

// Witness is a world's knowledge about a partition besides the state.
type Witness interface {
	// Input returns an input of the partition, and false for an offset beyond the end of the topic.
	Input(in events.Input, offset int64) (Input, bool)
	// DurableBefore says whether an input was durable before a time that the clock of the deciding owner showed.
	DurableBefore(in events.Input, offset int64, at events.Instant) bool
	// Folded says whether an accepted fact has this cause.
	Folded(events.Cause) bool
	// WasHeld says whether a request was ever held.
	WasHeld(task, request string) bool
	// Unsent names an effect of the task that was never acknowledged and whose destination is not delayed, or "".
	Unsent(task string) string
}

// Objects is a world's knowledge about the objects of named limits.
type Objects interface {
	// Applied returns the record at that offset of the definitions, and false if no such record is there.
	Applied(limit string, offset int64) (x supervisor.LimitRecord, known bool)
	// Most is the largest Max that the limit has had, and no bound if it had none.
	Most(limit string) int
	// Given returns when the limit gave permits, by the facts so far.
	Given(limit string) *Given
}

// Input is a world's knowledge about an input that it wrote.
type Input struct {
	Kind    InputKind
	Task    string
	Content string
	Report  events.Report
	Request events.Request
	Permit  Permit
	// Schedule is a request about a schedule, with its type ScheduleVerb; End tells one how its task ended. Task is the key of the schedule.
	Schedule     events.ScheduleRequest
	ScheduleVerb string
	End          events.TaskEnd
	Relative     Relative
	// Early says that a report landed before its attempt began, or an input about a schedule before the partition had the schedule. No agent
	// had been asked by then, so the report may be passed, even if the attempt runs when a fact passes it. Of what a parent says, it says that the child
	// had not ended then, or was past its pivot: its end was the answer, or is.
	Early bool
	// GivenUp says that it was deleted, and that an operator accepted the loss afterwards.
	GivenUp bool
	// Lethal says that judging it ends the process.
	Lethal bool
}

// InputKind is the kind of an input.
type InputKind int

// The kinds of inputs.
const (
	InputMarker     InputKind = 0
	InputSubmission InputKind = 1
	InputReport     InputKind = 2
	InputRequest    InputKind = 3
	InputGarbage    InputKind = 4
	InputPermit     InputKind = 5
	InputSchedule   InputKind = 6
	InputTaskEnd    InputKind = 7
	InputRelative   InputKind = 9 // of a parent or a child
	InputLimit      InputKind = 8 // Task is the name of the limit, and Request says what it asks for
)

// Outcome says whether the input is a report about the attempt, in that run of the task with this ticket.
func (x *Input) Outcome(a Attempt, ticket string, run int) bool {
	return x.about(a, ticket, run) && x.Report.Result != events.ResultProgress
}

// about says whether the input reports the outcome or the progress of an attempt.
func (x *Input) about(a Attempt, ticket string, run int) bool {
	r := &x.Report
	return x.Kind == InputReport && Attempt{x.Task, r.Step, r.Operation, r.Attempt} == a && r.Ticket == ticket && (r.Run == 0 || r.Run == events.RunOf(run))
}

// bothInputs are the inputs in a fixed order.
var bothInputs = [...]events.Input{events.Reports, events.Submissions}

// Pending yields the inputs of a topic that no fact has judged or passed, with their offsets.
func (j *Judge) Pending(in events.Input) iter.Seq2[int64, Input] {
	return func(yield func(int64, Input) bool) {
		for o := j.State.Partition.Inputs[in].Next; ; o++ {
			if x, ok := j.Input(in, o); !ok || !yield(o, x) {
				return
			}
		}
	}
}

// Silent yields the inputs of a topic that the fact passes without judging them.
func (j *Judge) Silent(f *events.Fact, in events.Input) iter.Seq2[int64, Input] {
	return func(yield func(int64, Input) bool) {
		to := passedTo(f, in)
		for o, x := range j.Pending(in) {
			if o >= to || !yield(o, x) {
				return
			}
		}
	}
}

// passedTo is the offset up to which a fact passes a topic, 0 if it passes none of it.
func passedTo(f *events.Fact, in events.Input) int64 {
	if of, _, offset, ok := f.Cause.Input(); ok {
		if of == in {
			return offset
		}
	} else if b, ok := f.Body.(*events.InputsPassed); ok {
		return b.Inputs[in].Next
	}
	return 0
}

// Passes checks that no resume point passes an unjudged input (INV12), and that no input is judged twice.
func (j *Judge) Passes(f *events.Fact) {
	if in, p, offset, ok := f.Cause.Input(); ok {
		switch {
		case p != j.ID:
			j.Fail("a fact of partition %d has the cause %s", j.ID, f.Cause)
		case j.Folded(f.Cause):
			j.Fail("INV7: an input was folded twice: %s, now by %s", f.Cause, f.Body.Name())
		case offset < j.State.Partition.Inputs[in].Next:
			j.Fail("INV12: %s judges %s, which was passed", f.Body.Name(), f.Cause)
		}
	}
	for _, in := range bothInputs {
		to := passedTo(f, in)
		if _, ok := j.Input(in, to-1); to > 0 && !ok {
			j.Fail("INV12: the resume point of %s is %d, beyond the end of the topic", in, to)
			return
		}
		for o, x := range j.Silent(f, in) {
			if why := j.needsFact(&x); why != "" {
				j.Fail("INV12: the resume point skipped %s %d, which nobody judged: %s (partition %d)", in, o, why, j.ID)
			}
		}
	}
}

// GivesUp checks that a fact gives up exactly the inputs from the resume point on that are lost and whose loss was accepted (INV12).
func (j *Judge) GivesUp(b *events.InputLossAccepted) {
	if at := j.State.Partition.Inputs[b.Input].Next; b.From != at {
		j.Fail("INV12: the loss of %s from %d on is accepted, and the resume point is %d", b.Input, b.From, at)
	}
	for o := b.From; o < b.To; o++ {
		if x, ok := j.Input(b.Input, o); !ok || !x.GivenUp {
			j.Fail("INV12: the resume point skipped %s %d, which nobody gave up (partition %d)", b.Input, o, j.ID)
		}
	}
}

// Follows checks that the outcome of an attempt follows from a report about this attempt, and not about one of an earlier task with
// the same ID.
func (j *Judge) Follows(f *events.Fact) {
	in, _, offset, ok := f.Cause.Input()
	id := AttemptOf(f.Task, f.Body)
	if !ok || in != events.Reports || id == (Attempt{}) {
		return
	}
	t, _ := j.State.Task(f.Task)
	if ByHand(f).Request != "" {
		if x, ok := j.Input(in, offset); ok && (x.Kind != InputRequest || x.Task != f.Task || decides(f, &x.Request) != "") {
			j.Fail("%s of %s does not follow from %s, which asks for something else", f.Body.Name(), id, f.Cause)
		}
		return
	}
	x, known := j.Input(in, offset)
	if known && x.Kind == InputRelative {
		if why := followsRelative(f, id, &x.Relative); why != "" {
			j.Fail("INV7: %s of %s does not follow from %s, %s", f.Body.Name(), id, f.Cause, why)
		}
		return
	}
	if known && t != nil && !x.Outcome(id, t.Incarnation, t.RunOf(id.Step)) {
		j.Fail("INV7: %s of %s does not follow from %s, which is about another attempt or an earlier task with the same ID", f.Body.Name(), id, f.Cause)
	}
}

// needsFact says why an input cannot be passed without a fact, or "" if it can.
func (j *Judge) needsFact(x *Input) string {
	switch {
	case x.Kind == InputMarker:
		return ""
	case x.Kind == InputGarbage:
		return "it cannot be read"
	case events.Home(x.Task, j.Partitions) != j.ID:
		if j.Off&supervisor.RuleForward != 0 {
			return "" // if anything gets lost that way, it shows when the world is at rest
		}
		return "it is misplaced"
	}
	t, _ := j.State.Task(x.Task)
	switch x.Kind {
	case InputSubmission:
		if t == nil || t.Content != x.Content {
			return "it is not a duplicate"
		}
	case InputReport:
		if r := &x.Report; t != nil && r.Result != events.ResultProgress && r.Ticket == t.Incarnation && (r.Run == 0 || r.Run == events.RunOf(t.RunOf(r.Step))) && t.Running(r.Step, r.Operation, r.Attempt) && !x.Early {
			return "its attempt is running"
		}
	case InputPermit:
		return j.needsPermitFact(&x.Permit)
	case InputRelative:
		return j.needsRelativeFact(x)
	case InputSchedule, InputTaskEnd:
		return j.needsScheduleFact(x)
	case InputLimit:
		return j.needsLimitFact(x)
	case InputRequest:
		switch id := x.Request.ID; {
		case j.WasHeld(x.Task, id): // it repeats a request that was held, and then consumed or expired
		case t != nil && t.HasRequest(id):
		case t != nil && slices.ContainsFunc(t.Held, func(r events.Request) bool { return r.ID == id }): // judged when it is planned
		default:
			return "the request was not judged"
		}
	}
	return ""
}

// TimesOut checks that no report of the attempt was durable before the attempt fell due.
func (j *Judge) TimesOut(f *events.Fact, b *events.Timeout) {
	if b.Attempt == 0 && b.StartBy != 0 {
		j.lapses(f, b)
		return
	}
	if f.Time < b.CompleteBy {
		j.Fail("attempt %d of step %q of task %q times out early", b.Attempt, b.Step, f.Task)
	}
	t, _ := j.State.Task(f.Task)
	if t == nil {
		return // the fold refuses the fact
	}
	if s := t.Step(b.Step); b.Attempt == 0 && s != nil && s.Waits() {
		j.givesUp(t, b, s.Wait.Signals)
	}
	for o, x := range j.Pending(events.Reports) {
		if x.Outcome(Attempt{f.Task, b.Step, b.Operation, b.Attempt}, t.Incarnation, t.RunOf(b.Step)) && j.DurableBefore(events.Reports, o, b.CompleteBy) {
			j.Fail("a Timeout beat a report that was durable before the timer fell due: reports %d of task %q, step %q", o, f.Task, b.Step)
		}
	}
}

// lapses checks that no request about a task was durable before the time of its step was over.
func (j *Judge) lapses(f *events.Fact, b *events.Timeout) {
	if f.Time < b.StartBy {
		j.Fail("the time of step %q of task %q is over early", b.Step, f.Task)
	}
	t, _ := j.State.Task(f.Task)
	for o, x := range j.Pending(events.Reports) { // a request that comes again leads to no fact
		if x.Kind == InputRequest && x.Task == f.Task && (t == nil || !t.HasRequest(x.Request.ID)) && j.DurableBefore(events.Reports, o, b.StartBy) {
			j.Fail("the end of a step's time beat a request that was durable before it: reports %d of task %q, step %q", o, f.Task, b.Step)
		}
	}
}

// givesUp checks that no signal that ends the wait was durable before its time was over.
func (j *Judge) givesUp(t *events.Task, b *events.Timeout, signals []string) {
	for _, in := range bothInputs {
		for o, x := range j.Pending(in) {
			q := &x.Request
			if x.Kind == InputRequest && x.Task == t.ID && q.Kind == events.RequestSignal && slices.Contains(signals, q.Signal) && !t.HasRequest(q.ID) &&
				takes(t, q) && j.DurableBefore(in, o, b.CompleteBy) {
				j.Fail("a wait timed out before a signal that was durable before its time was over: %s %d of task %q, step %q", in, o, t.ID, b.Step)
			}
		}
	}
}

func takes(t *events.Task, q *events.Request) bool {
	why, err := programs.CheckSignal(t, q.Signal, q.Payload)
	return why == "" && err == nil
}

// Progresses checks that progress is recorded of the attempt that a report is about, and at most once in each heartbeat.
func (j *Judge) Progresses(f *events.Fact, b *events.StepProgressed) {
	t, _ := j.State.Task(f.Task)
	if t == nil || t.Step(b.Step) == nil {
		return // the fold refuses the fact
	}
	in, _, offset, _ := f.Cause.Input()
	if x, ok := j.Input(in, offset); !ok || x.Report.Result != events.ResultProgress || !x.about(Attempt{f.Task, b.Step, events.Do, b.Attempt}, t.Incarnation, t.RunOf(b.Step)) {
		j.Fail("INV7: the progress of attempt %d of step %q of task %q does not follow from %s", b.Attempt, b.Step, f.Task, f.Cause)
	}
	if s := t.Step(b.Step); s.ProgressedAt > s.StartedAt && f.Time < s.ProgressedAt.Add(s.Heartbeat.Std()) {
		j.Fail("the progress of attempt %d of step %q of task %q is recorded twice in a heartbeat, at %s and %s", b.Attempt, b.Step, f.Task, s.ProgressedAt, f.Time)
	}
}

// PassesDeadline checks that no report of a running attempt of the task was durable before its deadline: the task might have ended.
func (j *Judge) PassesDeadline(f *events.Fact, b *events.DeadlinePassed) {
	if f.Time < b.Deadline {
		j.Fail("the deadline of task %q passes early", f.Task)
	}
	t, _ := j.State.Task(f.Task)
	if t == nil {
		return // the fold refuses the fact
	}
	for o, x := range j.Pending(events.Reports) {
		r := &x.Report
		if t.Running(r.Step, r.Operation, r.Attempt) && x.Outcome(Attempt{f.Task, r.Step, r.Operation, r.Attempt}, t.Incarnation, t.RunOf(r.Step)) && j.DurableBefore(events.Reports, o, b.Deadline) {
			j.Fail("a deadline beat a report that was durable before it passed: reports %d of task %q, step %q", o, f.Task, r.Step)
		}
	}
}

// GoesOn checks that the time goes back only by a correction, which is the first fact of its epoch, and that nothing else is decided before the
// correction is settled.
func (j *Judge) GoesOn(f *events.Fact) {
	p := &j.State.Partition
	b, corrects := f.Body.(*events.TimeCorrected)
	switch _, claim := f.Body.(*events.PartitionClaimed); {
	case claim: // it may land late
	case !corrects && p.Correcting != 0:
		j.Fail("%s is decided while the time is corrected", f.Body.Name())
	case corrects && f.Task == "" && !b.Settled && (f.Sequence > 0 || f.Time != b.To):
		j.Fail("the time is corrected to %s by the fact %d of its epoch, at %s", b.To, f.Sequence, f.Time)
	case f.Time < p.Time && (!corrects || f.Task != "" || b.Settled):
		j.Fail("%s has an earlier time than the fact before it", f.Body.Name())
	}
}

// Adopts checks that a partition adopts only later settings than it has.
func (j *Judge) Adopts(b *events.SettingsAdopted) {
	if p := &j.State.Partition; p.Settings != (events.Settings{}) && b.Offset <= p.SettingsOffset {
		j.Fail("the settings of offset %d are adopted after those of offset %d", b.Offset, p.SettingsOffset)
	}
}

// Sweeps checks that nothing durable before the horizon is judged after its task was forgotten, and that no effect of the
// task lies above the watermark (docs/protocol.md, "Sweeps and held requests"). The horizon follows from the settings that the
// partition has adopted, whatever its owner knows.
func (j *Judge) Sweeps(f *events.Fact, b *events.TasksSwept) {
	if at := j.State.Partition.JumpedAt; at != 0 && f.Time.Sub(at) < events.SweepAfterJump {
		j.Fail("tasks are forgotten at %s, and the time of the log jumped at %s", f.Time, at)
	}
	if f.Time.Sub(j.State.Partition.Time) > events.TimeJump {
		j.Fail("tasks are forgotten by the fact with which the time of the log jumps from %s to %s", j.State.Partition.Time, f.Time)
	}
	usual := j.State.Partition.Settings.RememberFor.Std()
	shortest := usual
	for _, id := range b.Tasks {
		t, _ := j.State.Task(id)
		if t == nil || !t.State.Ended() || t.EndedAt >= b.EndedBefore {
			j.Fail("INV9: task %q is swept too early", id)
			return
		}
		remember := usual
		if t.RememberFor > 0 {
			remember = t.RememberFor.Std()
		}
		shortest = min(shortest, remember)
		horizon := t.EndedAt.Add(remember)
		if horizon >= f.Time {
			j.Fail("INV9: task %q ended at %s and is swept at %s, but it is remembered for %s", id, t.EndedAt, f.Time, remember)
		}
		if remember < usual && b.ForgottenBefore <= t.EndedAt {
			j.Fail("task %q was remembered for a shorter time than the settings say, and copies of its submission are not refused", id)
		}
		if t.Schedule != "" && b.ScheduledForgottenBefore <= t.EndedAt {
			j.Fail("task %q is of the schedule %q, and copies of its submission are not refused", id, t.Schedule)
		}
		for _, in := range bothInputs {
			for o, x := range j.Pending(in) {
				if x.Task == id && (x.Kind == InputSubmission || x.Kind == InputRequest) && j.DurableBefore(in, o, horizon) {
					j.Fail("%s %d of %q was durable before the horizon and is judged after the sweep", in, o, id)
				}
			}
		}
		if effect := j.Unsent(id); effect != "" {
			j.Fail("%q was swept while an effect of it is not acknowledged: %s", id, effect)
		}
	}
	if b.EndedBefore.Add(shortest) > f.Time || max(b.ForgottenBefore, b.ScheduledForgottenBefore) > b.EndedBefore {
		j.Fail("a sweep at %s forgets tasks that ended before %s (%s), but they are remembered for %s at least", f.Time, b.EndedBefore, b.ForgottenBefore, shortest)
	}
}

// Expires checks that a held request waited long enough for its task.
func (j *Judge) Expires(f *events.Fact, b *events.InputRejected) {
	i := slices.IndexFunc(j.State.HeldFor(f.Task), func(h *events.HeldRequest) bool { return h.Request.ID == b.Held })
	if i < 0 {
		j.Fail("a request of %q that is not held expires", f.Task)
		return
	}
	expiry := j.State.HeldFor(f.Task)[i].ExpiresAt
	if f.Time < expiry {
		j.Fail("a held request of %q expires early", f.Task)
	}
	for o, x := range j.Pending(events.Submissions) {
		if x.Kind == InputSubmission && x.Task == f.Task && j.DurableBefore(events.Submissions, o, expiry) {
			j.Fail("a held cancel expired although its submission was durable before: submissions %d of %q", o, f.Task)
		}
	}
}
