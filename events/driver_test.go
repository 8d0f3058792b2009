package events_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// driver writes random logs of facts that fit the state, as an owner with a random scheduler would.
type driver struct {
	t     *rapid.T
	state *events.State
	log   []entry
	epoch events.Epoch
	next  uint64
	now   events.Instant
	read  int64 // of submissions
	steps []string
}

type move struct {
	task string
	body events.Body
}

var (
	driverTasks = []string{"a", "b", "ü/c"}
	driverSteps = []string{"p", "q", "r", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"}
)

// blob returns a value that is short, about as long as a head takes, or longer. Its encoding may have another length.
func (d *driver) blob(short string) json.RawMessage {
	n := rapid.SampledFrom([]int{0, 0, 0, 330, 700, 1020, 1024, 1500}).Draw(d.t, "length")
	if n == 0 {
		return raw(short)
	}
	return raw(`["` + strings.Repeat("x", n-10) + `\ufffd"]`)
}

func newDriver(t *rapid.T) *driver {
	d := &driver{t: t, state: events.NewState(testPartition, nil), now: testStart}
	d.steps = driverSteps[:rapid.SampledFrom([]int{3, 3, 11}).Draw(t, "steps")]
	d.claim()
	return d
}

func (d *driver) claim() {
	id := fmt.Sprintf("c%d", d.epoch.N+1)
	d.fold(&events.Fact{Time: d.now, Body: &events.PartitionClaimed{ID: id, Prev: d.epoch.ID, Owner: "n", Reader: 1}})
	d.epoch, d.next = events.Epoch{N: d.epoch.N + 1, ID: id}, 0
}

// step writes one random fact that fits.
func (d *driver) step() {
	d.now += events.Instant(rapid.IntRange(0, 5000).Draw(d.t, "ms"))
	if d.carries() {
		return
	}
	moves := d.moves()
	m := moves[rapid.IntRange(0, len(moves)-1).Draw(d.t, "move")]
	if m.body == nil {
		d.claim()
		return
	}
	f := &events.Fact{Epoch: d.epoch, Sequence: d.next, Time: d.now, Task: m.task, Body: m.body}
	if _, begun := m.body.(*events.CarryBegun); begun {
		b, err := events.BeginCarry(d.state)
		require.NoError(d.t, err)
		f.Body = b
	}
	switch m.body.(type) {
	case *events.Submitted, *events.RequestHeld, *events.InputRejected, *events.ChildRefused:
		f.Cause, f.CauseHash = events.CauseInput(events.Submissions, testPartition, d.read), fmt.Sprintf("%016x", d.read)
		f.Traceparent = rapid.SampledFrom([]string{"", "00-1-2-01", "\xff"}).Draw(d.t, "traceparent")
		d.read++
	case *events.StateHash:
		h, err := d.state.Hash()
		require.NoError(d.t, err)
		m.body.(*events.StateHash).Hash = h
	}
	if d.next > 0 && rapid.Bool().Draw(d.t, "settles") {
		f.Watermark = events.Position{Epoch: d.epoch, Sequence: rapid.Uint64Range(0, d.next-1).Draw(d.t, "watermark")}
	}
	d.fold(f)
	d.next++
}

func (d *driver) fold(f *events.Fact) {
	r, err := events.EncodeFact(f, testPartition, testSource)
	require.NoError(d.t, err)
	r.Offset = d.state.Next
	fate, err := d.state.Apply(f, r.Offset)
	require.NoError(d.t, err, "%s", f.Body.Name())
	require.Equal(d.t, events.FateAccepted, fate)
	d.log = append(d.log, entry{record: r, fact: f, fate: fate})
}

func (d *driver) moves() []move {
	list := []move{
		{}, // a claim
		{body: &events.InputsPassed{Inputs: map[events.Input]events.Passed{events.Submissions: {Next: d.read}}}},
		{body: &events.InputLossAccepted{Input: events.Submissions, From: d.state.Partition.Inputs[events.Submissions].Next, To: d.read + 1}},
		{body: &events.StateHash{}},
		{body: &events.CarryBegun{}},
		{body: &events.CarryBegun{}},
		{body: &events.EffectsDelayed{Destination: "alerts", After: d.state.Partition.Watermark}},
		{body: &events.EffectsCaughtUp{Destination: "alerts"}},
		{body: &events.SettingsAdopted{Settings: events.DefaultSettings()}},
		{body: &events.DefinitionAdopted{Workflow: "w", Hash: "d1", Version: 1, Body: raw(`{ "a": 1.0 }`)}},
		{task: "a", body: &events.InputRejected{Reason: events.RejectTooOld, ScheduledForgottenBefore: rapid.SampledFrom([]events.Instant{0, d.now}).Draw(d.t, "refused before")}},
	}
	if d.state.Partition.Carry != nil {
		list = slices.DeleteFunc(list, func(m move) bool { return m.body != nil && m.body.Name() == events.NameCarryBegun })
	}
	for _, id := range driverTasks {
		t, err := d.state.Task(id)
		require.NoError(d.t, err)
		switch {
		case t == nil:
			list = append(list, d.newcomer(id)...)
		case t.State.Ended():
			for _, b := range d.ended(t) {
				list = append(list, move{id, b})
			}
			list = append(list, move{body: &events.TasksSwept{Tasks: []string{id}, EndedBefore: d.now, ForgottenBefore: rapid.SampledFrom([]events.Instant{0, d.now}).Draw(d.t, "forgotten before"), ScheduledForgottenBefore: rapid.SampledFrom([]events.Instant{0, d.now}).Draw(d.t, "scheduled forgotten before")}})
		default:
			for _, b := range d.bodies(t) {
				list = append(list, move{id, b})
			}
		}
	}
	return list
}

func (d *driver) newcomer(id string) []move {
	request := events.Request{ID: rapid.SampledFrom([]string{"q1", "q2", "q\x003"}).Draw(d.t, "request"), Kind: events.RequestCancel, Task: id}
	list := []move{
		{id, &events.Submitted{
			Workflow: "w", Version: 1, Hash: "d1", Input: d.blob(`{ "x" : "\ufffd<\u2028>" , "n": 1.50e3 }`), Content: "c",
			Parent: d.parentOf(),
			Labels: map[string]string{"b": "2", "a": "1"}, Deadline: d.now.Add(60e9), Priority: 1, RememberFor: rapid.SampledFrom([]events.Duration{0, 36e11}).Draw(d.t, "remembered"), ReplyTo: rapid.SampledFrom([]string{"", "shop.replies"}).Draw(d.t, "reply topic"),
		}},
		{id, &events.RequestHeld{Request: request, ExpiresAt: d.now.Add(60e9)}},
	}
	list = append(list, d.strangers(id)...)
	for _, h := range d.state.HeldFor(id) {
		list = append(list, move{id, &events.InputRejected{Reason: events.RejectExpired, Held: h.Request.ID}})
	}
	return list
}

func (d *driver) verdict() events.Verdict {
	return events.Verdict{
		Action: rapid.SampledFrom([]events.Action{events.ActionRetry, events.ActionCoolDown, events.ActionUndo, events.ActionPark, events.ActionContinue}).Draw(d.t, "action"),
		At:     d.now.Add(1e9), Reason: "because",
	}
}

func (d *driver) failure() events.Error {
	return events.Error{Class: events.ClassRetryable, Message: rapid.SampledFrom([]string{"no", "b\xffd"}).Draw(d.t, "message"), Detail: d.blob(`[ 1.0 ]`)}
}

// startBy returns one of few limits, or none.
func (d *driver) startBy() events.Instant {
	return rapid.SampledFrom([]events.Instant{0, 0, testStart.Add(60e9), testStart.Add(70e9)}).Draw(d.t, "start by")
}

// bodies returns facts that fit a live task.
func (d *driver) bodies(t *events.Task) []events.Body {
	list := []events.Body{&events.CancelRequested{Request: fmt.Sprint("q", d.next)}, &events.TaskParked{Reason: "r"}}
	if len(t.Held) > 0 {
		return []events.Body{&events.CancelRequested{Request: t.Held[0].ID}}
	}
	idle := true
	for _, path := range d.steps {
		s := t.Step(path)
		if s == nil {
			s = &events.Step{Path: path, State: events.StepStateNotStarted}
		}
		idle = idle && s.State != events.StepStateRunning
		list = append(list, d.doBodies(t, s)...)
		list = append(list, d.undoBodies(t, s)...)
		list = append(list, d.byChild(t, s)...)
	}
	list = append(list, d.fanOut(t, &idle)...)
	list = append(list, d.ofParent(t)...)
	switch {
	case t.State == events.TaskStateUndoing && idle:
		list = append(list, d.end(t, &events.TaskUndone{Reason: t.Reason}))
	case t.State == events.TaskStateProcessing && idle:
		list = append(list, d.end(t, &events.TaskProcessed{Output: d.blob(`{ "z":1 }`)}))
	}
	if t.State == events.TaskStateError {
		list = append(list, &events.TaskReminded{Reminder: t.Reminders + 1, Since: t.ParkedAt, Reason: t.Reason})
	}
	for _, m := range t.Timers() {
		if m.Kind == events.TimerSoftLimit {
			list = append(list, &events.SoftLimitPassed{Step: m.Path, Since: m.Due.Add(-7e9), SoftAt: m.Due})
		}
	}
	if !t.DeadlinePassed {
		list = append(list, &events.DeadlinePassed{Deadline: t.Deadline, Action: rapid.SampledFrom([]string{events.DeadlineUndo, events.DeadlineAlert}).Draw(d.t, "deadline")})
	}
	return list
}

func (d *driver) doBodies(t *events.Task, s *events.Step) []events.Body {
	path := s.Path
	switch s.State {
	case events.StepStateRunning:
		outcome := events.Outcome{Instance: "i", StartedAt: d.now}
		failed := &events.StepFailed{Step: path, Attempt: s.Attempt, Effect: events.EffectNone, Error: d.failure(), Verdict: d.verdict(), Outcome: outcome}
		refused := &events.StepFailed{Step: path, Attempt: s.Attempt, Effect: events.EffectDoneUnknown, Output: d.blob(`[ 2 ]`), Error: d.failure(), Verdict: d.verdict()}
		return []events.Body{
			refused, &events.StepCompleted{Step: path, Attempt: s.Attempt, Output: d.blob(`{ "o" : [ 1 ] }`), Outcome: outcome}, failed,
			&events.Timeout{Step: path, Operation: events.Do, Attempt: s.Attempt, QuietAt: d.now.Add(2e9), Verdict: d.verdict()},
			&events.EffectFailed{Kind: events.EffectWork, Error: "e", Failed: failed},
		}
	case events.StepStateNotStarted, events.StepStateWaiting:
		list := []events.Body{&events.StepFailed{Step: path, Effect: events.EffectNone, Error: d.failure(), Verdict: d.verdict()}}
		if t.State == events.TaskStatePending || t.State == events.TaskStateProcessing {
			if t.Paused == nil {
				list = append(list, &events.Timeout{Step: path, Operation: events.Do, Verdict: d.verdict()})
			}
			if s.Attempt == 0 && s.StartBy == 0 && t.Paused == nil {
				list = append(list, &events.StepQueued{Step: path, StartWithin: 3e9, StartBy: d.now.Add(3e9)})
			}
			list = append(list, &events.StepStarted{Step: path, Agent: "g", Function: []string{"", "f"}[s.Attempt%2], Attempt: s.Attempt + 1, CompleteBy: d.now.Add(5e9), StartBy: d.startBy(), Input: d.blob(` 1 `), Undoable: true, Pivot: path == "r", RemindAfter: d.soft(s)}, d.try(t, s))
		}
		if s.Attempt == 0 {
			list = append(list, &events.StepSkipped{Step: path, Why: events.SkipCondition, Condition: "x < 1"})
		}
		if s.State == events.StepStateWaiting {
			list = append(list, &events.TaskReopened{Request: fmt.Sprint("r", d.next), Steps: []string{path}})
		}
		return list
	case events.StepStateFailed, events.StepStateTimedOut, events.StepStateUndoFailed:
		if s.Continued {
			return nil
		}
		list := []events.Body{&events.TaskReopened{Request: fmt.Sprint("r", d.next), Steps: []string{path}, By: "ada"}}
		if s.State == events.StepStateUndoFailed && (t.Undoing() || s.Tolerated()) {
			list = append(list, d.undoneByHand(s)...)
		}
		return list
	}
	return nil
}

// undoneByHand returns what an operator decides about the undo of a step.
func (d *driver) undoneByHand(s *events.Step) []events.Body {
	by, child := events.Operator{Request: fmt.Sprint("u", d.next), Reason: "why"}, s.ChildToDecide()
	return []events.Body{
		&events.Compensated{Step: s.Path, Attempt: s.Undo.Attempt, Child: child, Operator: by},
		&events.StepSkipped{Step: s.Path, Why: events.SkipOperator, Left: true, Child: child, Operator: by},
	}
}

// soft returns the soft limit of a step that begins.
func (d *driver) soft(s *events.Step) events.Duration {
	if s.Attempt > 0 || !rapid.Bool().Draw(d.t, "soft") {
		return 0
	}
	return 7e9
}

func (d *driver) undoBodies(t *events.Task, s *events.Step) []events.Body {
	u := s.Undo
	switch {
	case u != nil && u.State == events.StepStateRunning:
		failed := &events.CompensationFailed{Step: s.Path, Attempt: u.Attempt, Error: d.failure(), Verdict: d.verdict()}
		return []events.Body{
			&events.Compensated{Step: s.Path, Attempt: u.Attempt, Left: rapid.IntRange(0, 3).Draw(d.t, "leaves") == 0}, failed,
			&events.Timeout{Step: s.Path, Operation: events.Undo, Attempt: u.Attempt, Verdict: d.verdict()},
			&events.EffectFailed{Kind: events.EffectWork, Error: "e", CompensationFailed: failed},
		}
	case !events.Undoes(t, s) || s.Attempt == 0 || s.State == events.StepStateRunning:
	case u == nil || u.State == events.StepStateWaiting:
		attempt := 1
		if u != nil {
			attempt = u.Attempt + 1
		}
		list := []events.Body{
			&events.CompensationStarted{Step: s.Path, Agent: "g", Function: []string{"", "f"}[attempt%2], Attempt: attempt, CompleteBy: d.now.Add(5e9), StartBy: d.startBy(), Output: raw(` null `)},
			&events.CompensationFailed{Step: s.Path, Error: d.failure(), Verdict: d.verdict()},
		}
		if child := s.ChildToUndo(); child != "" {
			list = append(list, &events.CompensationStarted{Step: s.Path, Attempt: attempt, Child: &events.ChildCall{Task: child}})
		}
		if u != nil && s.ChildToDecide() == "" {
			list = append(list, d.undoneByHand(s)...)
		}
		return list
	}
	return nil
}
