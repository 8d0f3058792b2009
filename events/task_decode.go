package events

import (
	"encoding/json"
	"fmt"
)

// DecodeTask reads a task's encoding. The task shares no bytes with it: a store's value is good for a moment only.
func DecodeTask(b []byte) (*Task, error) {
	t := new(Task)
	r := read(b)
	if r.task(t); r.done() {
		t.own()
	} else {
		t = new(Task)
		if err := json.Unmarshal(b, t); err != nil {
			return nil, fmt.Errorf("read a task of the store: %w", err)
		}
	}
	t.hash = hashEntity(KindTask, t.ID, b)
	return t, nil
}

// own copies the raw values, which are slices of what was read, into one piece of memory of their own.
func (t *Task) own() {
	size := 0
	t.raws(func(raw *json.RawMessage) { size += len(*raw) })
	all := make([]byte, 0, size)
	t.raws(func(raw *json.RawMessage) {
		if *raw != nil {
			from := len(all)
			all = append(all, *raw...)
			*raw = all[from:len(all):len(all)]
		}
	})
}

func (t *Task) raws(yield func(*json.RawMessage)) {
	yield(&t.Input)
	yield(&t.Output)
	for _, s := range t.Steps {
		yield(&s.Input)
		yield(&s.Output)
		if s.Error != nil {
			yield(&s.Error.Detail)
		}
		if s.Undo != nil && s.Undo.Error != nil {
			yield(&s.Undo.Error.Detail)
		}
	}
}

func (r *reader) task(t *Task) {
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		n := 0
		switch name := r.name(); string(name) {
		case "id":
			n = 0
			r.text(&t.ID)
		case "run":
			n, t.Run = 1, r.number()
		case "workflow":
			n = 2
			r.text(&t.Workflow)
		case "version":
			n, t.Version = 3, r.number()
		case "definition":
			n = 4
			r.text(&t.Definition)
		case "state":
			n, t.State = 5, TaskState(r.word())
		case "priority":
			n, t.Priority = 6, r.number()
		case "labels":
			n, t.Labels = 7, r.labels()
		case "input":
			n, t.Input = 8, r.span()
		case "output":
			n, t.Output = 9, r.span()
		case "content":
			n = 10
			r.text(&t.Content)
		case "submitted_at":
			n, t.SubmittedAt = 11, r.instant()
		case "updated_at":
			n, t.UpdatedAt = 12, r.instant()
		case "ended_at":
			n, t.EndedAt = 13, r.instant()
		case "facts":
			n, t.Facts = 14, r.number()
		case "completions":
			n, t.Completions = 15, r.number()
		case "pivot_passed":
			n, t.PivotPassed = 16, r.flag()
		case "steps":
			n, t.Steps = 17, r.steps()
		case "traceparent":
			n = 18
			r.text(&t.Traceparent)
		case "last":
			n, t.Last = 19, r.position()
		default:
			n = r.rarely(t, name)
		}
		r.once(&seen, n)
	}
}

// rarely reads the members of a task that went another way than the usual one.
func (r *reader) rarely(t *Task, name []byte) (n int) {
	switch string(name) {
	case "deadline":
		n, t.Deadline = 20, r.instant()
	case "failure_count":
		n, t.FailureCount = 21, r.number()
	case "reason":
		n = 22
		r.text(&t.Reason)
	case "park_due":
		n = 23
		r.text(&t.ParkDue)
	case "park_reason":
		n = 24
		r.text(&t.ParkReason)
	case "parked_from":
		n, t.ParkedFrom = 25, TaskState(r.word())
	case "deadline_passed":
		n, t.DeadlinePassed = 26, r.flag()
	case "quiet_at":
		n, t.QuietAt = 27, r.instant()
	case "held":
		n, t.Held = 28, r.requests()
	case "requests":
		n, t.Requests = 29, r.texts()
	default:
		r.doubt()
	}
	return n
}

func (r *reader) position() (p Position) {
	if b, escaped := r.textSpan(); escaped || p.UnmarshalText(b) != nil {
		r.doubt()
	}
	return p
}

func (r *reader) steps() []*Step {
	list := make([]*Step, 0, usualSteps)
	for ok := r.begin('['); ok; ok = r.more('[') {
		s := new(Step)
		r.step(s)
		list = append(list, s)
	}
	return list
}

func (r *reader) step(s *Step) {
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		n := 0
		switch string(r.name()) {
		case "path":
			n = 0
			r.text(&s.Path)
		case "agent":
			n = 1
			r.text(&s.Agent)
		case "state":
			n, s.State = 2, StepState(r.word())
		case "attempt":
			n, s.Attempt = 3, r.number()
		case "started_at":
			n, s.StartedAt = 4, r.instant()
		case "complete_by":
			n, s.CompleteBy = 5, r.instant()
		case "ended_at":
			n, s.EndedAt = 6, r.instant()
		case "retry_at":
			n, s.RetryAt = 7, r.instant()
		case "input":
			n, s.Input = 8, r.span()
		case "output":
			n, s.Output = 9, r.span()
		case "error":
			s.Error = new(Error)
			r.failure(s.Error)
			n = 10
		case "reason":
			n = 11
			r.text(&s.Reason)
		case "failure_count":
			n, s.FailureCount = 12, r.number()
		case "tries":
			n, s.Tries = 13, r.number()
		case "cool_downs":
			n, s.CoolDowns = 14, r.number()
		case "touched":
			n, s.Touched = 15, r.flag()
		case "completion":
			n, s.Completion = 16, r.number()
		case "pivot":
			n, s.Pivot = 17, r.flag()
		case "undoable":
			n, s.Undoable = 18, r.flag()
		case "undo":
			s.Undo = new(UndoState)
			r.undo(s.Undo)
			n = 19
		default:
			r.doubt()
		}
		r.once(&seen, n)
	}
}

func (r *reader) undo(u *UndoState) {
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		n := 0
		switch string(r.name()) {
		case "state":
			n, u.State = 0, StepState(r.word())
		case "agent":
			n = 1
			r.text(&u.Agent)
		case "attempt":
			n, u.Attempt = 2, r.number()
		case "started_at":
			n, u.StartedAt = 3, r.instant()
		case "complete_by":
			n, u.CompleteBy = 4, r.instant()
		case "ended_at":
			n, u.EndedAt = 5, r.instant()
		case "retry_at":
			n, u.RetryAt = 6, r.instant()
		case "error":
			u.Error = new(Error)
			r.failure(u.Error)
			n = 7
		case "failure_count":
			n, u.FailureCount = 8, r.number()
		case "tries":
			n, u.Tries = 9, r.number()
		default:
			r.doubt()
		}
		r.once(&seen, n)
	}
}

func (r *reader) requests() []Request {
	list := []Request{}
	for ok := r.begin('['); ok; ok = r.more('[') {
		var q Request
		r.request(&q)
		list = append(list, q)
	}
	return list
}

// request reads words, since q moves before all is done.
func (r *reader) request(q *Request) {
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		n := 0
		switch string(r.name()) {
		case "id":
			n, q.ID = 0, r.word()
		case "kind":
			n, q.Kind = 1, r.word()
		case "task":
			n, q.Task = 2, r.word()
		case "step":
			n, q.Step = 3, r.word()
		case "reason":
			n, q.Reason = 4, r.word()
		case "attempt":
			n, q.Attempt = 5, r.number()
		case "by":
			n, q.By = 6, r.word()
		default:
			r.doubt()
		}
		r.once(&seen, n)
	}
}
