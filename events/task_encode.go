package events

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"
)

// entity writes what the state hash counts of an entity: kind, ID and encoding, NUL between them. It returns where the
// encoding begins.
func (e *encoder) entity(k Kind, id string, v any) (from int, err error) {
	e.b, e.odd = e.b[:0], false
	e.literal(string(k))
	e.b = append(e.b, 0)
	e.literal(id)
	e.b = append(e.b, 0)
	from = len(e.b)
	known := false
	switch v := v.(type) {
	case *Task:
		known = e.task(v)
	case *PartitionState:
		known = e.partition(v)
	}
	if !known {
		err = e.marshalled(from, v)
	}
	return from, err
}

// hash returns the hash of the entity that was written.
func (e *encoder) hash() Hash {
	sum := sha256.Sum256(e.b)
	return hashOf(&sum)
}

func (e *encoder) task(t *Task) bool {
	e.text(`{"id":`, t.ID)
	e.number(`,"run":`, t.Run)
	e.text(`,"workflow":`, t.Workflow)
	e.number(`,"version":`, t.Version)
	e.text(`,"definition":`, t.Definition)
	e.text(`,"state":`, string(t.State))
	e.numberIf(`,"priority":`, t.Priority)
	e.labelsIf(`,"labels":`, t.Labels)
	e.rawIf(`,"input":`, t.Input)
	e.rawIf(`,"output":`, t.Output)
	e.text(`,"content":`, t.Content)
	e.instant(`,"submitted_at":`, t.SubmittedAt)
	e.instant(`,"updated_at":`, t.UpdatedAt)
	e.instantIf(`,"ended_at":`, t.EndedAt)
	e.instantIf(`,"deadline":`, t.Deadline)
	e.numberIf(`,"failure_count":`, t.FailureCount)
	e.textIf(`,"reason":`, t.Reason)
	e.number(`,"facts":`, t.Facts)
	e.textIf(`,"park_due":`, t.ParkDue)
	e.textIf(`,"park_reason":`, t.ParkReason)
	e.textIf(`,"parked_from":`, string(t.ParkedFrom))
	e.flagIf(`,"pivot_passed":`, t.PivotPassed)
	e.flagIf(`,"deadline_passed":`, t.DeadlinePassed)
	e.instantIf(`,"quiet_at":`, t.QuietAt)
	e.numberIf(`,"completions":`, t.Completions)
	for i := range t.Held {
		e.literal(between(i, `,"held":[`))
		e.request(&t.Held[i])
	}
	e.closeIf(len(t.Held))
	for i, id := range t.Requests {
		e.text(between(i, `,"requests":[`), id)
	}
	e.closeIf(len(t.Requests))
	for i, s := range t.Steps {
		e.literal(between(i, `,"steps":[`))
		e.step(s)
	}
	e.closeIf(len(t.Steps))
	e.textIf(`,"traceparent":`, t.Traceparent)
	e.positionIf(`,"last":`, t.Last)
	return e.end()
}

// between returns what stands before the item of a list.
func between(i int, first string) string {
	if i == 0 {
		return first
	}
	return ","
}

// closeIf ends a list of n items; one without any was never begun.
func (e *encoder) closeIf(n int) {
	if n > 0 {
		e.b = append(e.b, ']')
	}
}

func (e *encoder) step(s *Step) {
	if s == nil {
		e.odd = true
		return
	}
	e.text(`{"path":`, s.Path)
	e.textIf(`,"agent":`, s.Agent)
	e.text(`,"state":`, string(s.State))
	e.numberIf(`,"attempt":`, s.Attempt)
	e.instantIf(`,"started_at":`, s.StartedAt)
	e.instantIf(`,"complete_by":`, s.CompleteBy)
	e.instantIf(`,"ended_at":`, s.EndedAt)
	e.instantIf(`,"retry_at":`, s.RetryAt)
	e.rawIf(`,"input":`, s.Input)
	e.rawIf(`,"output":`, s.Output)
	e.failureIf(`,"error":`, s.Error)
	e.textIf(`,"reason":`, s.Reason)
	e.numberIf(`,"failure_count":`, s.FailureCount)
	e.numberIf(`,"tries":`, s.Tries)
	e.numberIf(`,"cool_downs":`, s.CoolDowns)
	e.flagIf(`,"touched":`, s.Touched)
	e.numberIf(`,"completion":`, s.Completion)
	e.flagIf(`,"pivot":`, s.Pivot)
	e.flagIf(`,"undoable":`, s.Undoable)
	if u := s.Undo; u != nil {
		e.undo(u)
	}
	e.b = append(e.b, '}')
}

func (e *encoder) undo(u *UndoState) {
	e.text(`,"undo":{"state":`, string(u.State))
	e.textIf(`,"agent":`, u.Agent)
	e.numberIf(`,"attempt":`, u.Attempt)
	e.instantIf(`,"started_at":`, u.StartedAt)
	e.instantIf(`,"complete_by":`, u.CompleteBy)
	e.instantIf(`,"ended_at":`, u.EndedAt)
	e.instantIf(`,"retry_at":`, u.RetryAt)
	e.failureIf(`,"error":`, u.Error)
	e.numberIf(`,"failure_count":`, u.FailureCount)
	e.numberIf(`,"tries":`, u.Tries)
	e.b = append(e.b, '}')
}

func (e *encoder) request(q *Request) {
	e.text(`{"id":`, q.ID)
	e.text(`,"kind":`, q.Kind)
	e.text(`,"task":`, q.Task)
	e.textIf(`,"step":`, q.Step)
	e.textIf(`,"reason":`, q.Reason)
	e.numberIf(`,"attempt":`, q.Attempt)
	e.textIf(`,"by":`, q.By)
	e.b = append(e.b, '}')
}

func (e *encoder) partition(p *PartitionState) bool {
	e.number(`{"partition":`, int(p.Partition))
	if p.Epoch != (Epoch{}) {
		e.literal(`,"epoch":"`)
		e.epoch(p.Epoch)
		e.b = append(e.b, '"')
	}
	e.textIf(`,"owner":`, p.Owner)
	e.instantIf(`,"since":`, p.Since)
	e.sequenceIf(`,"next_sequence":`, p.NextSequence)
	e.flagIf(`,"broken":`, p.Broken)
	e.instantIf(`,"time":`, p.Time)
	if len(p.Inputs) > 0 {
		e.inputs(p.Inputs)
	}
	e.positionIf(`,"settled":`, p.Settled)
	if p.Settings != (Settings{}) {
		e.settings(&p.Settings)
	}
	e.numberIf(`,"reader":`, p.Reader)
	e.numberIf(`,"since_hash":`, p.SinceHash)
	return e.end()
}

func (e *encoder) sequenceIf(name string, n uint64) {
	if n != 0 {
		e.b = strconv.AppendUint(append(e.b, name...), n, 10)
	}
}

func (e *encoder) inputs(all map[Input]Passed) {
	for i, in := range slices.Sorted(maps.Keys(all)) {
		p := all[in]
		e.text(between(i, `,"inputs":{`), string(in))
		e.b = strconv.AppendInt(append(e.b, `:{"next":`...), p.Next, 10)
		e.textIf(`,"hash":`, p.Hash)
		e.b = append(e.b, '}')
	}
	e.b = append(e.b, '}')
}

func (e *encoder) settings(s *Settings) {
	e.number(`,"settings":{"submission_bytes":`, s.SubmissionBytes)
	e.number(`,"payload_bytes":`, s.PayloadBytes)
	e.number(`,"task_facts":`, s.TaskFacts)
	e.number(`,"held_requests":`, s.HeldRequests)
	e.text(`,"held_for":`, s.HeldFor.String())
	e.text(`,"grace":`, s.Grace.String())
	e.text(`,"remember_for":`, s.RememberFor.String())
	e.number(`,"hash_every":`, s.HashEvery)
	e.b = append(e.b, '}')
}
