package sim

import (
	"encoding/json"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// committed checks a commit, and its rows, against the reader's fold at the same offset (INV2, INV3).
func (p *partition) committed(s *slot, a supervisor.Commit) {
	w, d := p.w, a.Delta
	if d.Next > p.log.end() {
		w.fail("INV3: %s/%d commits up to %d, the log ends at %d", s.node.name, p.id, d.Next, p.log.end())
		return
	}
	if d.Sum != p.sums[d.Next-1] && !isLoading(d) {
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
		if d.Tasks[i].Others > 0 {
			w.saw(sawTaskRow)
		}
	}
	if w.aside.IntN(4) == 0 {
		p.readsItsWrites(s)
	}
	if sample(w, 8) {
		if sum := s.store.full(); sum != d.Sum {
			w.fail("INV3: what %s/%d committed up to %d adds up to %s, its sum is %s", s.node.name, p.id, d.Next, sum, d.Sum)
		}
	}
}

// keeps checks that a committed row holds everything that moves its task: nothing follows from its state (INV5), ready
// steps are in the queue, and waiting ones are among the timers (INV10).
func (p *partition) keeps(s *slot, row *events.TaskRow) {
	k := row.Keys
	if row.Encoding == nil || k.Unplanned || p.w.clients.toxic[row.ID] != "" {
		return // if planning panics, the store has no timers of the task: a running attempt moves it, and then the panic parks it
	}
	stored, err := s.store.Load(row.ID)
	if err != nil {
		p.w.fail("INV3: %s/%d cannot load task %q, which it commits: %v", s.node.name, p.id, row.ID, err)
		return
	}
	t, err := events.DecodeTask(stored.Encoding, stored.Rows)
	if err != nil {
		p.w.fail("INV3: %s/%d commits a task that cannot be read: %v", s.node.name, p.id, err)
		return
	}
	if k.State != t.State || k.EndedAt != t.EndedAt {
		p.w.fail("INV3: %s/%d commits task %q, %s, with the keys of a task that is %s", s.node.name, p.id, t.ID, t.State, k.State)
	}
	if t.State.Ended() {
		return
	}
	plan, err := planning().Plan(t)
	if err != nil || !plan.Quiet() {
		p.w.fail("INV5: %s/%d commits task %q, %s, from which facts still follow: %+v %v", s.node.name, p.id, t.ID, t.State, plan, err)
		return
	}
	now := p.saysWhy(s, t, &k)
	overdue := t.Deadline != 0 && !t.DeadlinePassed && !t.Irrevocable() && t.Deadline <= now
	for _, r := range plan.Ready {
		if overdue && r.Operation == events.Do {
			continue // its deadline moves the task
		}
		if by := events.StartBy(t, r.Path, r.Operation); by != 0 && by <= now {
			continue // its start limit moves the task
		}
		queued := slices.ContainsFunc(k.Ready, func(x events.ReadyKey) bool {
			return k.FairBy == t.FairBy && x.Path == r.Path && x.Operation == r.Operation && x.Call() == r.Call() && x.Since == r.Since && x.Priority == r.Priority
		})
		if !queued && (k.Wake == 0 || k.Wake > r.NotBefore) {
			p.w.fail("INV10: %s/%d commits task %q, and nothing starts its step %q", s.node.name, p.id, t.ID, r.Path)
		}
	}
	wakes := func(at events.Instant, what string) {
		if k.Due == 0 || k.Due > at {
			p.w.fail("INV10: %s/%d commits task %q, and nothing looks at %s", s.node.name, p.id, t.ID, what)
		}
	}
	if t.Deadline != 0 && !t.DeadlinePassed && t.State != events.TaskStateUndoing && t.ParkedFrom != events.TaskStateUndoing {
		wakes(t.Deadline, "its deadline")
	}
	if t.NotBefore != 0 && !t.Halted() && (k.Wake == 0 || k.Wake > t.NotBefore) {
		p.w.fail("INV10: %s/%d commits task %q, and nothing looks at its not_before", s.node.name, p.id, t.ID)
	}
	p.remembers(s, t, &k)
	wakesForSteps(t, wakes)
}

// wakesForSteps calls wakes for each instant at which the owner must look at a step, and says what for.
func wakesForSteps(t *events.Task, wakes func(at events.Instant, what string)) {
	for _, m := range t.Timers() {
		if m.Kind == events.TimerStartBy {
			wakes(m.Due, "the start limit of its step "+m.Path)
		}
	}
	for _, x := range t.Steps {
		if at, child := asksAgain(x); child {
			wakes(at, "the child of its step "+x.Path)
			continue
		}
		if x.State == events.StepStateRunning {
			wakes(x.CompleteBy, "its step "+x.Path)
		}
		if x.Undo != nil && x.Undo.State == events.StepStateRunning {
			wakes(x.Undo.CompleteBy, "the undo of its step "+x.Path)
		}
	}
}

// saysWhy checks that the keys of a committed task say why it does not go on, unless an attempt runs or its time is over, which a timer
// judges (INV10). It returns the time of the commit.
func (p *partition) saysWhy(s *slot, t *events.Task, k *events.Keys) (now events.Instant) {
	now = max(s.owner.Status().Time, p.state.Partition.Time)
	if running, _ := t.RunningStep(); running != nil || len(k.Ready) > 0 || len(k.Waits) > 0 || k.Due != 0 && k.Due <= now {
		return now
	}
	p.w.fail("INV10: %s/%d commits task %q, %s, and its keys do not say what it waits for: %+v at %s", s.node.name, p.id, t.ID, t.State, *k, now)
	return now
}

// readsItsWrites checks that a store that has passed a submission can answer a read of it, as the API's token promises.
func (p *partition) readsItsWrites(s *slot) {
	for _, in := range bothInputs {
		t, from := p.inputs.of(in), s.answered[in]
		to := s.store.passed()[in].Next
		s.answered[in] = max(from, to)
		for o := from; o < min(to, t.end()); o++ {
			m := t.meta[o]
			if m.Kind != InputSubmission || p.inputs.givenUp(in, o) || events.Home(m.Task, p.w.opt.Partitions) != p.id {
				continue
			}
			if f := p.inputs.facts[events.CauseInput(in, p.id, o)]; f != nil && f.Body.Name() != events.NameSubmitted {
				continue
			}
			g := p.sagas.byTask[m.Task] // the latest submission with this ID, if an earlier task was swept
			if _, known := s.store.Keys(m.Task); !known && g != nil && g.accepted < s.store.Next() {
				p.w.fail("%s/%d has passed the submission of %q at %d and does not know the task", s.node.name, p.id, m.Task, o)
			}
		}
	}
}

// remembers checks that the keys of a committed task wake its owner for the alerts that are due at a time.
func (p *partition) remembers(s *slot, t *events.Task, k *events.Keys) {
	soft, _ := softTimer(t)
	for _, x := range []struct {
		what string
		at   events.Instant
	}{{"reminder", t.RemindAt}, {"soft limit", soft}} {
		if x.at != 0 && (k.Wake == 0 || k.Wake > x.at) {
			p.w.fail("INV10: %s/%d commits task %q, and nothing looks at its %s", s.node.name, p.id, t.ID, x.what)
		}
	}
}

// isLoading says whether the delta is of a state that began with a carry that has not ended yet.
func isLoading(d *events.Delta) bool {
	for i := range d.Parts {
		if d.Parts[i].Kind == events.KindPartition {
			var x events.PartitionState
			return json.Unmarshal(d.Parts[i].Encoding, &x) == nil && x.Loading()
		}
	}
	return false
}
