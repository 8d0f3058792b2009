package model

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// judge is a partition whose log is about to get one more accepted fact. It shares only the fold with the owners.
type judge struct {
	sim.Judge
	w    *World
	part *part
	// log is the log before the fact.
	log *logNode
}

// before checks an accepted fact against the state that it changes (docs/protocol.md, "What breaks without each rule").
func (j *judge) before(f *events.Fact, source string) {
	p := &j.State.Partition
	if c, ok := f.Body.(*events.PartitionClaimed); ok {
		if j.log.find(j.w.sp, func(g *events.Fact) bool {
			b, ok := g.Body.(*events.PartitionClaimed)
			return ok && b.ID == c.ID
		}) != nil {
			j.w.fail("INV11: the claim %s becomes current a second time and deposes the owner", claimName(c.ID))
		}
		if p.Reader > events.FirstLevel && j.w.sp.cfg.Older > 0 && c.Owner == nodeName(j.w.sp.cfg.Older-1) {
			j.w.fail("INV11: %s owns the partition, and does not understand the barrier %d", c.Owner, p.Reader)
		}
		j.part.before = int32(len(j.part.inputs[topicOf(events.Reports)]))
		return
	}
	if node := source[strings.LastIndexByte(source, '/')+1:]; node != url.PathEscape(p.Owner) {
		j.w.fail("INV11: an accepted fact was written by %s, the current claimant is %s", node, p.Owner)
	}
	j.GoesOn(f)
	j.times(f)
	j.Passes(f)
	j.Follows(f)
	j.settled(sim.SettledAfter(&j.State.Partition, f))
	switch b := f.Body.(type) {
	case *events.Timeout:
		j.timesOut(f, b)
	case *events.StepProgressed:
		j.Progresses(f, b)
	case *events.DeadlinePassed:
		j.expires(f, b)
	case *events.TasksSwept:
		j.Sweeps(f, b)
	case *events.SettingsAdopted:
		j.Adopts(b)
	case *events.DefinitionAdopted:
		if b.Workflow == newerWorkflow && p.Reader < newerLevel {
			j.w.fail("a definition of level %d is adopted with the barrier %d", newerLevel, p.Reader)
		}
	case *events.Submitted:
		if j.w.sp.cfg.deleted(b.Workflow, "") {
			j.w.fail("a task of a definition begins that was deleted before it was submitted")
		}
		startedOnce(j, f, b)
	case *events.InputLossAccepted:
		j.GivesUp(b)
	case *events.ChildRefused:
		loses(j, f, b)
	case *events.InputRejected:
		j.rejects(f, b)
	case *events.StepStarted:
		j.starts(f)
	case *events.StepFailed:
		j.failed(f, b)
	case *events.EffectFailed:
		effectFailed(j, f, b)
	case *events.TaskParked:
		if strings.HasPrefix(b.Reason, "internal") {
			j.w.fail("a task is parked as internal: %s", b.Reason)
		}
	case *events.CompensationStarted:
		j.undoes(f, b)
	}
	j.requests(f)
	j.byHand(f)
	j.waits(f)
	j.Permits(f, j.w.states(), j.w.sp.cfg.right)
	j.Relatives(f, j.w.states())
	judgeMore(j, f)
}

// judgeMore checks what has its own accounts.
func judgeMore(j *judge, f *events.Fact) {
	checkReruns(j, f)
	judgeFanOuts(j, f)
	judgeCopies(j, f)
}

// loses checks that a child counts as lost only if something may have been.
func loses(j *judge, f *events.Fact, b *events.ChildRefused) {
	if x := j.w.sp.cfg.Budgets; b.Reason == events.RejectLost && x[Trims]+x[Refusals]+x[LostAppends]+x[Losses] == 0 {
		j.w.fail("%s counts as lost although nothing was lost", f.Task)
	}
}

// startedOnce checks that a schedule starts a task once, also if its submission comes again after the task was forgotten.
func startedOnce(j *judge, f *events.Fact, b *events.Submitted) {
	j.log.accepted(j.w.sp, func(other *events.Fact) bool {
		if other.Body.Name() == events.NameSubmitted && other.Task == f.Task && b.Schedule != "" {
			j.w.fail("the task %s of the schedule %s begins a second time", f.Task, b.Schedule)
		}
		return true
	})
}

// effectFailed checks an effect that is given up.
func effectFailed(j *judge, f *events.Fact, b *events.EffectFailed) {
	if b.Kind == events.EffectDeadLetter {
		j.w.fail("INV12: a dead letter is given up")
	}
	j.givesUp(f, b)
	if b.Failed != nil {
		j.failed(f, b.Failed)
	}
	j.arrives(j.w.sp.debt(events.FactID(&events.Fact{Epoch: b.Of.Epoch, Sequence: b.Of.Sequence}, j.ID), b.Kind))
}

// timesOut checks that the time of a step or of an attempt is over.
func (j *judge) timesOut(f *events.Fact, b *events.Timeout) {
	j.TimesOut(f, b)
	if t, _ := j.State.Task(f.Task); b.Attempt == 0 && (t == nil || t.Halted() || j.w.sp.cfg.right(f.Time) < j.startBy(f.Task)) {
		j.w.fail("the time of a step of %s is over early, or while an operator holds the task", f.Task)
	}
	j.silences(f, b)
}

// starts checks that a step may start.
func (j *judge) starts(f *events.Fact) {
	if slices.Contains(j.log.cancelled, f.Task) {
		j.w.fail("a step started although a cancel was held before the task was accepted")
	}
	due, passed := j.deadline(f.Task)
	if due != 0 && f.Time >= due && !passed && !j.irrevocable(f.Task) {
		j.w.fail("a step starts in a task that its deadline is about to undo")
	}
	if by := j.startBy(f.Task); by != 0 && f.Time >= by && !j.w.sp.cfg.Wrong { // a correction gives it all its time again
		j.w.fail("a step starts at %s although its time was over at %s", f.Time, by)
	}
	if t, _ := j.State.Task(f.Task); t != nil && (t.Deadline != due || t.DeadlinePassed != passed) {
		j.w.fail("a step starts with the deadline %s (passed: %v), and its task has %s (passed: %v)", t.Deadline, t.DeadlinePassed, due, passed)
	}
}

// Input implements sim.Witness.
func (j *judge) Input(in events.Input, offset int64) (sim.Input, bool) {
	list := j.part.inputs[topicOf(in)]
	if offset < 0 || offset >= int64(len(list)) {
		return sim.Input{}, false
	}
	x := j.w.sp.inputs[list[offset].input].Input
	// Nothing comes back, so everything below the end of an accepted loss was judged or is given up.
	x.GivenUp = in == events.Submissions && offset < j.part.accepted[1]
	return x, true
}

// DurableBefore implements sim.Witness.
func (j *judge) DurableBefore(in events.Input, offset int64, before events.Instant) bool {
	return j.w.sp.cfg.at(j.part.inputs[topicOf(in)][offset].clock) < j.w.sp.cfg.right(before)
}

// Folded implements sim.Witness.
func (j *judge) Folded(c events.Cause) bool {
	return j.log.find(j.w.sp, func(f *events.Fact) bool { return f.Cause == c }) != nil
}

// WasHeld implements sim.Witness.
func (j *judge) WasHeld(task, request string) bool {
	return j.log.find(j.w.sp, func(f *events.Fact) bool {
		h, ok := f.Body.(*events.RequestHeld)
		return ok && f.Task == task && h.Request.ID == request
	}) != nil
}

// Unsent implements sim.Witness.
func (j *judge) Unsent(task string) string {
	for _, d := range j.log.owed {
		if _, delayed := j.State.Partition.Delayed[d.to]; d.fact.Task == task && !delayed && !slices.Contains(j.part.arrived, d.id) {
			return j.w.sp.debts[d.id]
		}
	}
	return ""
}

// settled checks that the log calls no unsent effect settled.
func (j *judge) settled(s sim.Settled) {
	for _, d := range j.log.owed {
		if s.Covers(d.at, d.to) {
			if !slices.Contains(j.part.arrived, d.id) && sim.StillOwed(j.State, d.fact, d.to) {
				j.w.fail("the watermark passed an effect that nobody sent: %s", j.w.sp.debts[d.id])
			}
			j.part.arrived = slices.DeleteFunc(j.part.arrived, func(id int32) bool { return id == d.id })
		}
	}
}

// arrives notes that an effect landed, if that still matters.
func (j *judge) arrives(id int32) {
	owed := slices.ContainsFunc(j.log.owed, func(d debt) bool { return d.id == id })
	if owed && !slices.Contains(j.part.arrived, id) {
		j.part.arrived = append(j.part.arrived, id)
	}
}

// givesUp checks that a reply is given up only when its fact is old.
func (j *judge) givesUp(f *events.Fact, b *events.EffectFailed) {
	if b.Kind != events.EffectReply {
		return
	}
	of := j.log.find(j.w.sp, func(g *events.Fact) bool { return g.Position() == b.Of })
	if of == nil || f.Time.Sub(of.Time) < replyFor {
		j.w.fail("a reply is given up before its time: %s", b.Of)
	}
}

// expires checks that a deadline acts once, unless an operator reopened the task since and it was still to come when the task was parked,
// and undoes the task if it can.
func (j *judge) expires(f *events.Fact, b *events.DeadlinePassed) {
	j.PassesDeadline(f, b)
	due, passed := j.deadline(f.Task)
	t, _ := j.State.Task(f.Task)
	switch {
	case b.Deadline != due:
		j.w.fail("the deadline %s of %s passes, and it has the deadline %s", b.Deadline, f.Task, due)
	case passed:
		j.w.fail("the deadline of %s passes twice", f.Task)
	case t != nil && (b.Action == events.DeadlineAlert) != (t.Halted() || j.irrevocable(f.Task)):
		j.w.fail("the deadline of %s passes with the action %s", f.Task, b.Action)
	}
}

// deadline returns the deadline of a task, which counts on after each time that the task was parked, and whether it has passed.
func (j *judge) deadline(task string) (due events.Instant, passed bool) {
	var since, halted, notBefore events.Instant // since when the deadline counts, since when it does not, and before when it does not either
	var within time.Duration                    // how long it was away when the task could begin
	parked, paused := false, false
	goOn := func(now events.Instant) {
		if parked || paused || halted == 0 {
			return
		}
		if halted < due {
			due, passed, since = due.Add(max(0, now.Sub(max(halted, notBefore)))), false, now
		}
		halted = 0
	}
	j.log.accepted(j.w.sp, func(f *events.Fact) bool {
		if f.Task != task {
			return true
		}
		switch b := f.Body.(type) {
		case *events.Submitted:
			due, passed, since, halted, parked, paused = b.Deadline, false, f.Time, 0, false, false
			notBefore, within = b.NotBefore, b.Deadline.Sub(max(f.Time, b.NotBefore))
		case *events.NotBeforePassed:
			notBefore = 0
		case *events.DeadlinePassed:
			passed = true
		case *events.TaskParked:
			if parked = true; halted == 0 {
				halted = f.Time
			}
		case *events.TaskPaused:
			if paused = true; halted == 0 {
				halted = f.Time
			}
		case *events.TaskReopened:
			parked = false
			goOn(f.Time)
		case *events.TaskResumed:
			paused = false
			goOn(f.Time)
		case *events.TaskRerun:
			parked, paused, halted = false, false, 0
		case *events.RunBegun:
			if due != 0 {
				due, passed, since = f.Time.Add(max(0, within)), false, f.Time
			}
		case *events.TimeCorrected:
			if notBefore != 0 && since > b.To { // only a time that counts from the acceptance is in this model
				due, notBefore = due-since+b.To, notBefore-since+b.To
			} else if since > b.To && due > b.To {
				due = b.To.Add(due.Sub(since))
			}
			since, halted = min(since, b.To), min(halted, b.To)
		}
		return true
	})
	return due, passed
}

// startBy returns when the time of the step of a task of the workflow limited is over, by its start_within and its retry.within.
func (j *judge) startBy(task string) (by events.Instant) {
	const startWithin, within = 10 * time.Second, 3 * time.Second
	right, limited, started := j.w.sp.cfg.right, false, false
	j.log.accepted(j.w.sp, func(f *events.Fact) bool {
		if f.Task != task {
			return true
		}
		switch b := f.Body.(type) {
		case *events.Submitted:
			limited, started, by = b.Workflow == "limited", false, 0
		case *events.StepQueued:
			by = right(f.Time).Add(startWithin)
		case *events.StepStarted:
			if limited && !started {
				started, by = true, right(f.Time).Add(within)
			}
		case *events.TaskReopened:
			started, by = false, 0
		}
		return true
	})
	return by
}

// irrevocable says whether the pivot of a task may have had an effect.
func (j *judge) irrevocable(task string) bool {
	t, _ := j.State.Task(task)
	return t != nil && slices.ContainsFunc(t.Steps, func(s *events.Step) bool {
		return s.Pivot && (s.State == events.StepStateRunning || s.Touched)
	})
}

func (j *judge) rejects(f *events.Fact, b *events.InputRejected) {
	if b.Reason == events.RejectInternal {
		j.w.fail("an input is rejected as internal: %s", b.Detail)
	}
	if in, _, offset, ok := f.Cause.Input(); b.Reason == events.RejectEnded && ok {
		if x := j.w.sp.inputs[j.part.inputs[topicOf(in)][offset].input]; !x.Lethal {
			j.w.fail("an input that ends no process is rejected: %s", x.name)
		}
	}
	if b.Reason == events.RejectUnknownWorkflow && !j.ofDeleted(f) {
		j.w.fail("a submission of a workflow that was applied before it is rejected as unknown")
	}
	if b.Held == "" {
		return
	}
	if j.consumed(f.Task, b.Held) {
		j.w.fail("a held request expires although its task was accepted after it")
	}
	j.Expires(f, b)
}

// ofDeleted says whether the cause of a fact is a submission of a workflow that is deleted.
func (j *judge) ofDeleted(f *events.Fact) bool {
	return slices.ContainsFunc(j.w.sp.cfg.Clients, func(c Client) bool { return c.Task == f.Task && j.w.sp.cfg.deleted(c.Workflow, "") })
}

// consumed says whether the task was accepted since the request was held for it.
func (j *judge) consumed(task, request string) (yes bool) {
	held := false
	j.log.accepted(j.w.sp, func(f *events.Fact) bool {
		h, ok := f.Body.(*events.RequestHeld)
		switch {
		case f.Task != task:
		case ok && h.Request.ID == request:
			held, yes = true, false
		case f.Body.Name() == events.NameSubmitted:
			yes = held
		}
		return true
	})
	return yes
}

// failed checks that no attempt that may have been sent in two epochs is judged to have had no effect, whether by a
// report or because the broker refused one copy: the other copy may still have an effect.
func (j *judge) failed(f *events.Fact, b *events.StepFailed) {
	if b.Effect != events.EffectNone || b.Attempt == 0 {
		return
	}
	started := j.log.find(j.w.sp, func(g *events.Fact) bool {
		s, ok := g.Body.(*events.StepStarted)
		return ok && g.Task == f.Task && s.Step == b.Step && s.Attempt == b.Attempt
	})
	if started != nil && started.Epoch != f.Epoch {
		j.w.fail("an attempt counts as one without effect that an earlier owner may have sent too: %s.%s", f.Task, b.Step)
	}
}

// undoes checks the order of undos (docs/protocol.md, "Undo").
func (j *judge) undoes(f *events.Fact, b *events.CompensationStarted) {
	t, _ := j.State.Task(f.Task)
	if t == nil {
		return
	}
	for _, s := range t.Steps {
		if s.State == events.StepStateRunning && t.State == events.TaskStateUndoing {
			j.w.fail("step %s of %s is undone while %s runs", b.Step, f.Task, s.Path)
		}
	}
	if j.w.sp.cfg.right(f.Time) < j.quietAt(f.Task) {
		j.w.fail("step %s of %s is undone while an attempt of the task may still act", b.Step, f.Task)
	}
}

// quietAt returns the time until which a request of the task may still land: one of an attempt in doubt, or of an attempt that
// was sent in two epochs and reported by only one instance.
func (j *judge) quietAt(task string) (quiet events.Instant) {
	lastEnd, started := map[string]events.Instant{}, map[string]events.Epoch{} // the agent of an attempt in doubt may act until its cap
	until := func(step string) {
		quiet = max(quiet, lastEnd[step].Add(settings().Grace.Std()))
	}
	j.log.accepted(j.w.sp, func(f *events.Fact) bool {
		if f.Task != task {
			return true
		}
		switch b := f.Body.(type) {
		case *events.StepStarted:
			lastEnd[b.Step] = j.w.sp.cfg.right(max(b.CompleteBy, b.CapBy))
			if b.Undoable {
				started[b.Step] = f.Epoch
			}
		case *events.StepCompleted:
			if e, undoable := started[b.Step]; undoable && e != f.Epoch && b.Request == "" { // two instances may have it, and the other one may still carry it out
				until(b.Step)
			}
		case *events.StepFailed:
			if b.Attempt > 0 && b.Effect == events.EffectInDoubt {
				until(b.Step)
			}
		case *events.EffectFailed:
			if x := b.Failed; x != nil && x.Effect == events.EffectInDoubt {
				until(x.Step)
			}
		case *events.Timeout:
			if b.Operation == events.Do { // its agent has ended: see silences
				quiet = max(quiet, j.w.sp.cfg.right(b.CompleteBy).Add(settings().Grace.Std()))
			}
		}
		return true
	})
	return quiet
}

// leaves checks INV8: the fact of an effect that leaves is durable and accepted. by is the epoch in which it is sent.
func (j *judge) leaves(id int32, by events.Epoch) {
	e := &j.w.sp.effects[id]
	if e.kind == events.EffectForward && j.w.sp.cfg.Off&supervisor.RuleForward != 0 {
		return
	}
	f := j.log.find(j.w.sp, func(f *events.Fact) bool {
		if e.kind == events.EffectForward {
			return f.Cause == e.origin && f.Body.Name() == events.NameInputForwarded
		}
		return events.FactID(f, j.ID) == e.fact
	})
	switch {
	case f == nil:
		j.w.fail("INV8: phantom: the log does not hold the fact of an effect that was sent: %s", e.name)
	case e.work != nil && e.work.Run != workRun(f):
		j.w.fail("%s is sent for run %d, and its fact is of run %d", e.name, e.work.Run, workRun(f))
	case e.unowed: // the alert about a refused dead letter, which no fact owes
	case e.kind == events.EffectReply && j.log.answersIn(j.w.sp, f) != "":
	case e.kind == events.EffectEnd && j.w.sp.endOf(f) != "":
	case !slices.Contains(sim.EffectsOf(f), e.kind):
		j.w.fail("%s was sent for %s, which does not owe it", e.name, f.Body.Name())
	case e.permit != nil && sim.SaysPermit(f, &e.record, *e.permit, j.Partitions) != "":
		j.w.fail("%s, sent for %s: %s", e.name, f.Body.Name(), sim.SaysPermit(f, &e.record, *e.permit, j.Partitions))
	case e.work != nil && f.Epoch != by && by == j.State.Partition.Epoch:
		j.again(e)
	}
}

// again checks that no work is sent again if its report was durable before the epoch and is not judged yet: the copy could act
// after the report was judged.
func (j *judge) again(e *effect) {
	for o, x := range j.Pending(events.Reports) {
		if o < int64(j.part.before) && x.Outcome(sim.Attempt{Task: e.work.Task, Step: e.work.Step, Op: e.work.Operation, N: e.work.Attempt}, e.work.Ticket, e.work.Run) {
			j.w.fail("work is sent again although its report was durable before the epoch and is not judged: %s", e.name)
		}
	}
}

// debtOf returns the debt that the effect settles.
func (j *judge) debtOf(id int32) int32 {
	e := &j.w.sp.effects[id]
	fact := e.fact
	if e.kind == events.EffectForward {
		f := j.log.find(j.w.sp, func(f *events.Fact) bool { return f.Cause == e.origin })
		if f == nil {
			return -1
		}
		fact = events.FactID(f, j.ID)
	}
	return j.w.sp.debt(fact, e.kind)
}
