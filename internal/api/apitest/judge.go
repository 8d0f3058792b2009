package apitest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/supervisor"
)

// Produce implements api.Appender for the input topics of the namespace "test".
func (e *Engine) Produce(_ context.Context, r events.Record, done func(partition int32, offset int64, err error)) {
	e.mu.Lock()
	if e.Stuck {
		e.mu.Unlock()
		return
	}
	list := e.inputs[events.Input(strings.TrimPrefix(r.Topic, "test."))]
	err := e.Down
	if list == nil {
		err = errTopic
	}
	if err != nil {
		e.mu.Unlock()
		done(r.Partition, -1, err)
		return
	}
	r.Offset = int64(len(list[r.Partition]))
	list[r.Partition] = append(list[r.Partition], r)
	if !e.Manual {
		e.judge()
	}
	e.mu.Unlock()
	done(r.Partition, r.Offset, nil)
}

// ProduceBatch implements api.Appender.
func (e *Engine) ProduceBatch(ctx context.Context, records []events.Record, done func(i int, partition int32, offset int64, err error)) {
	for i, r := range records {
		e.Produce(ctx, r, func(partition int32, offset int64, err error) { done(i, partition, offset, err) })
	}
}

// SetDown makes Produce fail from now on, or work again.
func (e *Engine) SetDown(err error) { e.mu.Lock(); e.Down = err; e.mu.Unlock() }

// Inputs returns the records of an input, partition by partition.
func (e *Engine) Inputs(in events.Input) []events.Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []events.Record
	for _, list := range e.inputs[in] {
		all = append(all, list...)
	}
	return all
}

// CatchUp implements api.Inputs.
func (e *Engine) CatchUp(ctx context.Context, in events.Input, partition int32) error {
	if err := e.asked(); err != nil {
		return err
	}
	e.mu.Lock()
	end, called := int64(len(e.inputs[in][partition])), e.CatchingUp
	e.mu.Unlock()
	if called != nil {
		called()
	}
	return e.WaitPassed(ctx, in, partition, end-1)
}

// Judge judges all inputs that have not been judged yet.
func (e *Engine) Judge() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.judge()
}

func (e *Engine) judge() {
	for _, in := range []events.Input{events.Submissions, events.Reports} {
		for p := range Partitions {
			for list := e.inputs[in][p]; e.passed[in][p] < int64(len(list)); e.passed[in][p]++ {
				e.one(in, int32(p), &list[e.passed[in][p]])
			}
		}
	}
	e.broadcast()
}

func (e *Engine) one(in events.Input, p int32, r *events.Record) {
	id, cause := string(r.Key), events.CauseInput(in, p, r.Offset)
	t := e.tasks[id]
	if in == events.Reports {
		switch kind := r.Header(events.HeaderType); kind {
		case events.TypeLimitPause, events.TypeLimitResume:
			e.pauseLimit(id, kind)
			return
		case events.TypeScheduleTrigger: // is granted; ChangeSchedule says what it led to
			return
		}
		e.request(id, cause, r, t)
		return
	}
	sub, err := events.ParseSubmission(r.Value)
	if err != nil {
		e.reject(in, cause, r, events.RejectUnreadable)
		return
	}
	sub.ID = id
	content, _ := sub.ContentHash()
	if t != nil {
		if t.Content != content {
			e.reject(in, cause, r, events.RejectConflict)
		}
		return
	}
	now := e.tick()
	e.tasks[id] = &events.Task{
		ID: id, Run: 1, Workflow: sub.Workflow, Version: max(1, sub.Version), Definition: r.Header(events.HeaderDefinition), State: events.TaskStatePending,
		Priority: sub.Priority, Labels: sub.Labels, Input: sub.Input, Content: content, SubmittedAt: now, UpdatedAt: now, Facts: 1,
	}
	e.fact(id, cause, &events.Submitted{Workflow: sub.Workflow, Version: 1, Hash: r.Header(events.HeaderDefinition), Input: sub.Input, Content: content})
}

func (e *Engine) request(id string, cause events.Cause, r *events.Record, t *events.Task) {
	q := events.Request{ID: r.Header(events.HeaderID), Task: id, Kind: events.VerbOf(r.Header(events.HeaderType))}
	_ = json.Unmarshal(r.Value, &struct {
		*events.Request
		Kind events.Verb `json:"-"`
	}{Request: &q})
	if t == nil && q.Kind.Early() {
		e.held[id+"\x00"+q.ID] = &q
		return
	}
	if t == nil || t.State.Ended() && q.Kind != events.RequestRerun {
		e.reject(events.Reports, cause, r, events.RejectRefused)
		return
	}
	body, no := supervisor.JudgeRequest(t, &q)
	switch b := body.(type) {
	case *events.CancelRequested:
		t.State, t.Reason = events.TaskStateUndoing, "cancelled"
	case *events.TaskReopened:
		t.State, t.ParkedFrom = cmp.Or(t.ParkedFrom, events.TaskStateProcessing), ""
	case *events.TaskPaused:
		t.Paused = &events.Paused{Since: t.UpdatedAt, Reason: b.Reason}
	case *events.TaskResumed:
		t.Paused = nil
	case *events.SignalReceived:
		t.Kept = append(t.Kept, events.KeptSignal{Request: b.Request, Signal: b.Signal, Payload: b.Payload})
	case *events.TaskTerminated:
		t.State = events.TaskStateTerminated
	case *events.TaskRerun:
		t.State, t.ParkedFrom, t.EndedAt, t.Rerun = events.TaskStateUndoing, "", 0, &events.Rerun{Input: b.Input}
	case *events.StepSkipped, *events.StepCompleted, *events.Compensated, *events.StepFailed, *events.CompensationFailed:
	case nil:
		body = &events.RequestRefused{Request: q.ID, Verb: q.Kind, Reason: no.Reason}
	default:
		panic(fmt.Sprintf("apitest does not know %s", b.Name()))
	}
	t.Requests = append(t.Requests, events.JudgedRequest{
		ID: q.ID, Verb: q.Kind, Refused: no.Reason, Fact: events.Position{Epoch: events.Epoch{N: 1, ID: "e"}, Sequence: uint64(len(e.facts[id]))},
	})
	slices.SortFunc(t.Requests, func(a, b events.JudgedRequest) int { return strings.Compare(a.ID, b.ID) })
	e.fact(id, cause, body)
}

// Held implements api.Tasks.
func (e *Engine) Held(_ context.Context, task, request string) (*events.Request, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held[task+"\x00"+request], nil
}

func (e *Engine) reject(in events.Input, cause events.Cause, r *events.Record, reason string) {
	e.rejected[cause] = &events.InputRejected{Reason: reason, Detail: "because."}
	e.bury(in, r, reason)
}

func (e *Engine) bury(in events.Input, r *events.Record, reason string) {
	dead := *r
	dead.Timestamp = e.tick()
	header := func(k, v string) { dead.Headers = append(dead.Headers, events.Header{Key: k, Value: []byte(v)}) }
	dead.Headers = append([]events.Header(nil), r.Headers...)
	header(api.DeadHeaderTopic, "test."+string(in))
	header(api.DeadHeaderPartition, strconv.Itoa(int(r.Partition)))
	header(api.DeadHeaderOffset, strconv.FormatInt(r.Offset, 10))
	header(api.DeadHeaderReason, reason)
	header(api.DeadHeaderMessage, "because")
	list := &e.dead[in][r.Partition]
	dead.Offset = int64(len(*list))
	*list = append(*list, dead)
}

// Bury makes a record a dead letter.
func (e *Engine) Bury(in events.Input, r events.Record, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bury(in, &r, reason)
}

func (e *Engine) fact(task string, cause events.Cause, body events.Body) {
	p := events.Home(task, Partitions)
	f := &events.Fact{Epoch: events.Epoch{N: 1, ID: "e"}, Sequence: uint64(e.ends[p]), Time: e.now, Task: task, Cause: cause, Body: body}
	r, err := events.EncodeFact(f, p, "/test/events")
	if err != nil {
		panic(err)
	}
	r.Offset = e.ends[p]
	e.ends[p]++
	e.facts[task] = append(e.facts[task], api.LoggedFact{Record: r, Owner: "node-a"})
	e.changedBy(task, p)
}

// Change changes a task by a fact, and wakes everyone who waits for a change.
func (e *Engine) Change(id string, body events.Body, change func(t *events.Task)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tasks[id]
	t.UpdatedAt = e.tick()
	change(t)
	e.fact(id, "", body)
	e.broadcast()
}

// Finish ends a task successfully.
func (e *Engine) Finish(id string) {
	e.Change(id, &events.TaskProcessed{}, func(t *events.Task) { t.State, t.EndedAt = events.TaskStateProcessed, t.UpdatedAt })
}

// Park parks a task.
func (e *Engine) Park(id, reason string) {
	e.Change(id, &events.TaskParked{Reason: reason}, func(t *events.Task) { t.State, t.Reason = events.TaskStateError, reason })
}

// SetSteps gives one definition these steps; the others keep the default ones.
func (e *Engine) SetSteps(hash string, steps ...api.Step) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.steps == nil {
		e.steps = map[string][]api.Step{}
	}
	e.steps[hash] = steps
}
