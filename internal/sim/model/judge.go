package model

import (
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// judge is a partition whose log is about to take one more accepted fact. It shares with the owners only the fold.
type judge struct {
	w    *World
	id   int32
	part *part
	// log is what lies before the fact.
	log *logNode
}

// before checks an accepted fact against the state that it changes (reading/traces.md tells what each check is for).
func (j *judge) before(f *events.Fact, source string) {
	p := &j.log.state.Partition
	if c, ok := f.Body.(*events.PartitionClaimed); ok {
		if j.log.find(j.w.sp, func(g *events.Fact) bool {
			b, ok := g.Body.(*events.PartitionClaimed)
			return ok && b.ID == c.ID
		}) != nil {
			j.w.fail("INV11: the claim %s becomes current a second time and deposes the owner", claimName(c.ID))
		}
		j.part.before = int32(len(j.part.inputs[topicOf(events.Reports)]))
		return
	}
	if node := source[strings.LastIndexByte(source, '/')+1:]; node != p.Owner {
		j.w.fail("INV11: an accepted fact was written by %s, the current claimant is %s", node, p.Owner)
	}
	if f.Time < p.Time {
		j.w.fail("%s has a time before that of the fact in front of it", f.Body.Name())
	}
	j.passes(f)
	j.settles(f.Settled)
	switch b := f.Body.(type) {
	case *events.Timeout:
		j.timesOut(f, b)
	case *events.DeadlinePassed:
		if f.Time < b.Deadline {
			j.w.fail("the deadline of %s passed early", f.Task)
		}
	case *events.TasksSwept:
		j.sweeps(b)
	case *events.InputRejected:
		j.rejects(f, b)
	case *events.StepStarted:
		if slices.Contains(j.log.cancelled, f.Task) {
			j.w.fail("a step started although a cancel was held before the task was accepted")
		}
	case *events.StepFailed:
		j.failed(f, b)
	case *events.EffectFailed:
		if b.Kind == events.EffectDeadLetter {
			j.w.fail("INV12: a dead letter is given up")
		}
		if b.Failed != nil {
			j.failed(f, b.Failed)
		}
		j.arrives(j.w.sp.debt(events.FactID(&events.Fact{Epoch: b.Of.Epoch, Sequence: b.Of.Sequence}, j.id), b.Kind))
	case *events.TaskParked:
		if strings.HasPrefix(b.Reason, "internal") {
			j.w.fail("a task is parked as internal: %s", b.Reason)
		}
	case *events.UndoStarted:
		j.undoes(f, b)
	}
}

// passes checks that no resume point moves over an input that nobody judged (INV12), and that no input is judged
// twice.
func (j *judge) passes(f *events.Fact) {
	if in, p, offset, ok := f.Cause.Input(); ok {
		switch {
		case p != j.id:
			j.w.fail("a fact of partition %d has the cause %s", j.id, f.Cause)
		case j.log.find(j.w.sp, func(g *events.Fact) bool { return g.Cause == f.Cause }) != nil:
			j.w.fail("INV7: an input was folded twice: %s", f.Cause)
		case offset < j.log.state.Partition.Inputs[in].Next:
			j.w.fail("INV12: %s judges %s, which was passed", f.Body.Name(), f.Cause)
		}
		j.silent(in, offset)
		return
	}
	if b, ok := f.Body.(*events.InputsPassed); ok {
		for _, in := range topics {
			j.silent(in, b.Inputs[in].Next)
		}
	}
}

// silent checks that everything below the offset that makes no fact needs none.
func (j *judge) silent(in events.Input, to int64) {
	list := j.part.inputs[topicOf(in)]
	if to > int64(len(list)) {
		j.w.fail("INV12: the resume point of %s is %d, the topic ends at %d", in, to, len(list))
		return
	}
	for o := j.log.state.Partition.Inputs[in].Next; o < to; o++ {
		if why := j.needsFact(&j.w.sp.inputs[list[o].input]); why != "" {
			j.w.fail("INV12: the resume point skipped %s %d, which nobody judged: %s", in, o, why)
		}
	}
}

// needsFact says why an input cannot be passed without a fact, "" if it can.
func (j *judge) needsFact(x *input) string {
	switch {
	case x.kind == Marker:
		return ""
	case x.kind == Garbage:
		return "it cannot be read"
	case events.Home(x.task, j.w.sp.cfg.Partitions) != j.id:
		if j.w.sp.cfg.Off&supervisor.RuleForward != 0 {
			return "" // what is lost by it shows when the world is at rest
		}
		return "it is misplaced"
	}
	t, _ := j.log.state.Task(x.task)
	switch {
	case x.in == events.Submissions:
		if t == nil || t.Content != x.content {
			return "it is no duplicate"
		}
	case x.report != nil:
		if r := x.report; t != nil && r.Run == t.Run && t.Running(r.Step, r.Operation, r.Attempt) {
			return "its attempt is running"
		}
	case x.request != nil:
		held := j.log.find(j.w.sp, func(f *events.Fact) bool {
			h, ok := f.Body.(*events.RequestHeld)
			return ok && f.Task == x.task && h.Request.ID == x.request.ID
		})
		switch {
		case held != nil: // a repeat of one that was held, and then consumed or expired
		case t != nil && t.HasRequest(x.request.ID):
		case t != nil && x.request.Kind == events.RequestCancel && (t.State == events.Undoing || t.State == events.Undone || t.ParkedFrom == events.Undoing):
		default:
			return "the request was not judged"
		}
	}
	return ""
}

// settles checks that the settled position passes no effect that nobody sent.
func (j *judge) settles(to events.Position) {
	for _, d := range j.log.owed {
		if !to.Before(d.at) {
			if !slices.Contains(j.part.arrived, d.id) && j.stillOwed(d.fact) {
				j.w.fail("settled passed an effect that nobody sent: %s", j.w.sp.debts[d.id])
			}
			j.part.arrived = slices.DeleteFunc(j.part.arrived, func(id int32) bool { return id == d.id })
		}
	}
}

// stillOwed says whether the effect must be sent whatever came after: work only for an attempt that runs.
func (j *judge) stillOwed(f *events.Fact) bool {
	t, _ := j.log.state.Task(f.Task)
	switch b := f.Body.(type) {
	case *events.StepStarted:
		return t != nil && t.Running(b.Step, events.Do, b.Attempt)
	case *events.UndoStarted:
		return t != nil && t.Running(b.Step, events.Undo, b.Attempt)
	}
	return true
}

// arrives notes that an effect landed, while anybody asks for it.
func (j *judge) arrives(id int32) {
	owed := slices.ContainsFunc(j.log.owed, func(d debt) bool { return d.id == id })
	if owed && !slices.Contains(j.part.arrived, id) {
		j.part.arrived = append(j.part.arrived, id)
	}
}

// pending calls yield for each input that is not judged and was durable before the instant.
func (j *judge) pending(in events.Input, before events.Instant, yield func(x *input, offset int64)) {
	list := j.part.inputs[topicOf(in)]
	for o := j.log.state.Partition.Inputs[in].Next; o < int64(len(list)); o++ {
		if at(list[o].clock) < before {
			yield(&j.w.sp.inputs[list[o].input], o)
		}
	}
}

func (j *judge) timesOut(f *events.Fact, b *events.Timeout) {
	if f.Time < b.CompleteBy {
		j.w.fail("a Timeout was decided although the timer was not due")
	}
	j.pending(events.Reports, b.CompleteBy, func(x *input, offset int64) {
		if r := x.report; r != nil && x.task == f.Task && r.Step == b.Step && r.Operation == b.Operation && r.Attempt == b.Attempt {
			j.w.fail("a Timeout beat a report that was durable before the timer fell due: reports %d", offset)
		}
	})
}

// sweeps checks that nothing durable before the horizon is judged after its task was forgotten, and that no effect of
// the task lies behind the settled position (reading/traces.md, B1 to B7).
func (j *judge) sweeps(b *events.TasksSwept) {
	for _, id := range b.Tasks {
		t, _ := j.log.state.Task(id)
		if t == nil || !t.State.Ended() || t.EndedAt >= b.EndedBefore {
			j.w.fail("INV9: %s was swept and is not to be forgotten yet", id)
			return
		}
		for _, in := range topics {
			j.pending(in, t.EndedAt.Add(settings().RememberFor.Std()), func(x *input, offset int64) {
				if x.task == id && x.report == nil {
					j.w.fail("%s %d of %s was durable before the horizon and is judged after the sweep", in, offset, id)
				}
			})
		}
		for _, d := range j.log.owed {
			if d.fact.Task == id && !slices.Contains(j.part.arrived, d.id) {
				j.w.fail("%s was swept while an effect of it is not settled: %s", id, j.w.sp.debts[d.id])
			}
		}
	}
}

func (j *judge) rejects(f *events.Fact, b *events.InputRejected) {
	if b.Reason == events.RejectInternal {
		j.w.fail("an input is rejected as internal: %s", b.Detail)
	}
	if b.Reason == events.RejectWorkflow {
		j.w.fail("a submission of a workflow that was applied before it is rejected as unknown")
	}
	if b.Held == "" {
		return
	}
	for _, h := range j.log.state.HeldFor(f.Task) {
		if h.Request.ID != b.Held {
			continue
		}
		if f.Time < h.ExpiresAt {
			j.w.fail("a held request expired early")
		}
		if j.consumed(f.Task, b.Held) {
			j.w.fail("a held request expires although its task was accepted behind it")
		}
		j.pending(events.Submissions, h.ExpiresAt, func(x *input, offset int64) {
			if x.kind == Submit && x.task == f.Task {
				j.w.fail("a held cancel expired although its submission %d was durable before it", offset)
			}
		})
		return
	}
	j.w.fail("a request of %s expired that is not held", f.Task)
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

// failed checks that no attempt is judged to have had no effect that may have been sent in two epochs, by a report or since
// the broker refused a copy of it: the other copy may yet have one.
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

// undoes checks the order of undos (DESIGN 5).
func (j *judge) undoes(f *events.Fact, b *events.UndoStarted) {
	t, _ := j.log.state.Task(f.Task)
	if t == nil {
		return
	}
	for _, s := range t.Steps {
		if s.State == events.StepRunning {
			j.w.fail("step %s of %s is undone while %s runs", b.Step, f.Task, s.Path)
		}
	}
	if f.Time < t.QuietAt {
		j.w.fail("step %s of %s is undone before a timed-out attempt is quiet", b.Step, f.Task)
	}
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
		return events.FactID(f, j.id) == e.fact
	})
	switch {
	case f == nil:
		j.w.fail("INV8: phantom: an effect was sent whose fact the log does not hold: %s", e.name)
	case e.unowed: // that a dead letter was refused: owed by nobody
	case !slices.Contains(effectsOf(f), e.kind):
		j.w.fail("%s was sent for %s, which does not owe it", e.name, f.Body.Name())
	case e.work != nil && f.Epoch != by && by == j.log.state.Partition.Epoch:
		j.again(e)
	}
}

// again checks that work is not sent again whose report was durable before the epoch, and is still to be judged: a copy
// could act after the report was judged.
func (j *judge) again(e *effect) {
	list := j.part.inputs[topicOf(events.Reports)]
	for o := j.log.state.Partition.Inputs[events.Reports].Next; o < int64(j.part.before); o++ {
		r := j.w.sp.inputs[list[o].input].report
		if r != nil && r.Task == e.work.Task && r.Step == e.work.Step && r.Operation == e.work.Operation && r.Attempt == e.work.Attempt {
			j.w.fail("work is sent again although its report was durable before the epoch and is not judged: %s", e.name)
		}
	}
}

// debtOf returns what the effect pays.
func (j *judge) debtOf(id int32) int32 {
	e := &j.w.sp.effects[id]
	fact := e.fact
	if e.kind == events.EffectForward {
		f := j.log.find(j.w.sp, func(f *events.Fact) bool { return f.Cause == e.origin })
		if f == nil {
			return -1
		}
		fact = events.FactID(f, j.id)
	}
	return j.w.sp.debt(fact, e.kind)
}
