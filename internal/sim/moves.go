package sim

import (
	"bytes"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// planned checks what follows from a task's state, before it is folded: that the plan asks for it (INV4, INV6), and that
// the work says what the workflow says.
func (p *partition) planned(f *events.Fact) {
	path, op, before := "", events.Do, events.Instant(0)
	switch b := f.Body.(type) {
	case *events.StepStarted:
		path, before = b.Step, b.ReadyAt
	case *events.UndoStarted:
		path, op, before = b.Step, events.Undo, b.ReadyAt
	case *events.TaskProcessed, *events.TaskUndone, *events.StepSkipped:
	default:
		return
	}
	t, err := p.state.Task(f.Task)
	if err != nil || t == nil {
		return // the fold says so
	}
	plan, err := programs.Plan(t)
	if err != nil {
		p.w.fail("INV4: task %q cannot be planned: %v", f.Task, err)
		return
	}
	if path == "" {
		if !slices.ContainsFunc(plan.Facts, func(b events.Body) bool { return b.Name() == f.Body.Name() }) {
			p.w.fail("INV4: %s of task %q, which its plan does not ask for", f.Body.Name(), f.Task)
		}
		return
	}
	i := slices.IndexFunc(plan.Ready, func(r events.Ready) bool { return r.Path == path && r.Operation == op })
	if i < 0 || !plan.Quiet() {
		p.w.fail("INV6: step %q of task %q starts, which its plan does not offer", path, f.Task)
		return
	}
	if r := plan.Ready[i]; r.NotBefore > f.Time || before > f.Time {
		p.w.fail("step %q of task %q starts before its time", path, f.Task)
	}
	start, err := programs.Start(t, path, op)
	if err != nil {
		p.w.fail("INV4: step %q of task %q starts, whose expressions fail: %v", path, f.Task, err)
		return
	}
	switch b := f.Body.(type) {
	case *events.StepStarted:
		if !bytes.Equal(b.Input, start.Input) {
			p.w.fail("INV4: step %q of task %q has another input than its workflow says", path, f.Task)
		}
		if t.Facts >= p.w.cfg.Settings.TaskFacts {
			p.w.fail("step %q of task %q starts above the limit of facts", path, f.Task)
		}
	case *events.UndoStarted:
		if !bytes.Equal(b.Input, start.Input) {
			p.w.fail("INV4: the undo of step %q of task %q has another input than its workflow says", path, f.Task)
		}
	}
}

// moves checks INV10 at the task's every fact: something will move it, or an operator has it. What the plan asks for
// moves it too: the owner writes it in the same batch, or the next owner does.
func (p *partition) moves(t *events.Task) {
	if t.State.Ended() || t.State == events.Parked || len(t.Timers()) > 0 {
		return
	}
	plan, err := programs.Plan(t)
	if err != nil {
		p.w.fail("INV4: task %q cannot be planned: %v", t.ID, err)
		return
	}
	if plan.Quiet() && len(plan.Ready) == 0 {
		p.w.fail("INV10: task %q, %s, has nothing that moves it", t.ID, t.State)
	}
}

// committed checks a commit against the reader's fold at the same offset (INV2, INV3), and what its rows say.
func (p *partition) committed(s *slot, a supervisor.Commit) {
	w, d := p.w, a.Delta
	if d.Next > p.log.end() {
		w.fail("INV3: %s/%d commits up to %d, the log ends at %d", s.node.name, p.id, d.Next, p.log.end())
		return
	}
	if d.Sum != p.sums[d.Next-1] {
		w.fail("INV2: %s/%d commits a state at %d that is not the fold of the log", s.node.name, p.id, d.Next)
		return
	}
	if last, r := a.Last, &p.log.records[d.Next-1]; events.HashRecord(&last) != events.HashRecord(r) {
		w.fail("INV3: %s/%d commits an anchor at %d that is not the record there", s.node.name, p.id, d.Next)
	}
	if err := s.store.Apply(d, a.Last); err != nil {
		w.fail("INV3: %s/%d: %v", s.node.name, p.id, err)
		return
	}
	w.note("%s/%d commits up to %d", s.node.name, p.id, d.Next)
	for i := range d.Tasks {
		p.keeps(s, &d.Tasks[i])
	}
	if w.aside.IntN(4) == 0 {
		p.readsItsWrites(s)
	}
	if w.aside.IntN(8) == 0 {
		if sum := s.store.full(); sum != d.Sum {
			w.fail("INV3: what %s/%d committed up to %d adds up to %s, its sum is %s", s.node.name, p.id, d.Next, sum, d.Sum)
		}
	}
}

// keeps checks that a committed row says all that moves its task: the plan is quiet (INV5), what is ready stands in the
// queue, and what waits for the clock among the timers (INV10).
func (p *partition) keeps(s *slot, row *events.TaskRow) {
	k := row.Keys
	if row.Encoding == nil || k.Unplanned || p.w.clients.toxic[row.ID] != "" {
		return // a plan that panics tells the store nothing: what runs moves the task, and the panic then parks it
	}
	t, err := events.DecodeTask(row.Encoding)
	if err != nil {
		p.w.fail("INV3: %s/%d commits a task that cannot be read: %v", s.node.name, p.id, err)
		return
	}
	if k.State != t.State || k.EndedAt != t.EndedAt {
		p.w.fail("INV3: %s/%d commits task %q, %s, with the keys of one that is %s", s.node.name, p.id, t.ID, t.State, k.State)
	}
	if t.State.Ended() {
		return
	}
	plan, err := programs.Plan(t)
	if err != nil || !plan.Quiet() {
		p.w.fail("INV5: %s/%d commits task %q, %s, whose plan is not quiet: %+v %v", s.node.name, p.id, t.ID, t.State, plan, err)
		return
	}
	for _, r := range plan.Ready {
		queued := slices.ContainsFunc(k.Ready, func(x events.ReadyKey) bool {
			return x.Path == r.Path && x.Operation == r.Operation && x.Agent == r.Agent && x.Since == r.Since && x.Priority == r.Priority
		})
		if !queued && (k.Due == 0 || k.Due > r.NotBefore) {
			p.w.fail("INV10: %s/%d commits task %q, and nothing starts its step %q", s.node.name, p.id, t.ID, r.Path)
		}
	}
	wakes := func(at events.Instant, what string) {
		if k.Due == 0 || k.Due > at {
			p.w.fail("INV10: %s/%d commits task %q, and nothing looks at %s", s.node.name, p.id, t.ID, what)
		}
	}
	if t.Deadline != 0 && !t.DeadlinePassed && t.State != events.Undoing && t.ParkedFrom != events.Undoing {
		wakes(t.Deadline, "its deadline")
	}
	for _, x := range t.Steps {
		if x.State == events.StepRunning {
			wakes(x.CompleteBy, "its step "+x.Path)
		}
		if x.Undo != nil && x.Undo.State == events.StepRunning {
			wakes(x.Undo.CompleteBy, "the undo of its step "+x.Path)
		}
	}
}

// readsItsWrites checks that a store which has passed a submission can answer for it: what the token of the API promises.
func (p *partition) readsItsWrites(s *slot) {
	for _, in := range bothInputs {
		t, from := p.input(in), s.answered[in]
		to := s.store.passed()[in].Next
		s.answered[in] = max(from, to)
		for o := from; o < min(to, t.end()); o++ {
			m := t.meta[o]
			if m.kind != metaSubmission || events.Home(m.task, p.w.opt.Partitions) != p.id {
				continue
			}
			if f := p.byCause[events.CauseInput(in, p.id, o)]; f != nil && f.Body.Name() != events.NameSubmitted {
				continue
			}
			g := p.saga[m.task] // the latest of this ID, where one was swept
			if _, known := s.store.Keys(m.task); !known && g != nil && g.accepted < s.store.Next() {
				p.w.fail("%s/%d has passed the submission of %q at %d and does not know the task", s.node.name, p.id, m.task, o)
			}
		}
	}
}

// pinned checks that a submission got the version for which it asked: by its stamp, by number, or one that was current
// when it was durable, or later.
func (p *partition) pinned(f *events.Fact, b *events.Submitted) {
	in, _, o, ok := f.Cause.Input()
	if !ok || o >= p.input(in).end() {
		return
	}
	m := p.input(in).meta[o]
	if len(p.input(in).records[o].Value) == p.w.cfg.Settings.SubmissionBytes {
		p.w.saw(sawAtLimit)
	}
	if p.tooLate(&p.input(in).records[o]) || m.tooLarge || m.unfit || !m.known && p.w.catalogEnd == m.catalog {
		p.w.fail("INV12: the submission %s is accepted and should not be", f.Cause)
	}
	if b.Version > 1 {
		p.w.saw(sawNewVersion)
	}
	if b.Workflow == "one" && b.Version == 1 && p.w.catalogEnd == len(applications) {
		p.w.saw(sawOldVersion)
	}
	_, applied := catalog(m.catalog).ByHash(m.workflow, m.stamp)
	switch {
	case b.Hash == m.stamp:
		return
	case applied:
		p.w.fail("task %q is pinned to %s, its stamp is %s", f.Task, b.Hash, m.stamp)
		return
	case m.version != 0:
		if b.Version != m.version {
			p.w.fail("task %q is pinned to version %d, it asks for %d", f.Task, b.Version, m.version)
		}
		return
	}
	for n := m.catalog; n <= p.w.catalogEnd; n++ {
		if v, ok := catalog(n).Current(m.workflow); ok && v.Hash == b.Hash {
			return
		}
	}
	p.w.fail("task %q is pinned to version %d of %q, which was not current when it was submitted or later", f.Task, b.Version, b.Workflow)
}
