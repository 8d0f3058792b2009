package events

import (
	"iter"
	"slices"
	"time"
)

// Waiting is a kind of reason why a step or a task does not go on. The same words are used by the API, the command line, the metrics and
// verify.
type Waiting string

// The kinds. This is their only list.
const (
	WaitingAgent       Waiting = "agent"
	WaitingCapacity    Waiting = "capacity"
	WaitingLimit       Waiting = "limit"
	WaitingConcurrency Waiting = "concurrency"
	WaitingSignal      Waiting = "signal"
	WaitingChild       Waiting = "child"
	WaitingSleep       Waiting = "sleep"
	WaitingRetry       Waiting = "retry"
	WaitingCoolDown    Waiting = "cool_down"
	WaitingQuiet       Waiting = "quiet"
	WaitingPaused      Waiting = "paused"
	WaitingNotBefore   Waiting = "not_before"
	WaitingOperator    Waiting = "operator"
	WaitingKey         Waiting = "key"
	WaitingOwner       Waiting = "owner"
)

// waitings says of each kind, in the order of their list, what it means.
var waitings = []struct {
	kind Waiting
	says string
}{
	{WaitingAgent, "an instance of its agent: none offers the operation, the service is failing, or requests cannot be sent"},
	{WaitingCapacity, "a free place: those that its agent has for the partition of the task are taken"},
	{WaitingLimit, "a permit of its named limit"},
	{WaitingConcurrency, "a permit of its concurrency key"},
	{WaitingSignal, "a signal"},
	{WaitingChild, "the end of the task that it started"},
	{WaitingSleep, "the time at which it is to continue"},
	{WaitingRetry, "its next attempt, after the pause that follows a failure"},
	{WaitingCoolDown, "the end of its cool-down, after its attempts were used up"},
	{WaitingQuiet, "the time after which no unanswered request can take effect any more"},
	{WaitingPaused, "an operator, who paused the task or the agent: resume it, or cancel or terminate the task"},
	{WaitingNotBefore, "its not_before, the time before which no step starts"},
	{WaitingOperator, "an operator, since the task is parked: remove the cause and retry the task; where its state allows it, complete or skip the step or cancel the task; terminate it if nothing else helps"},
	{WaitingKey, "a key that opens its sealed content: an instance of its agent, or the owner of its partition, lacks it"},
	{WaitingOwner, "the owner of its partition: it has not planned the task since the partition was taken over, or it is late"},
}

// Waitings returns all kinds.
func Waitings() []Waiting {
	list := make([]Waiting, len(waitings))
	for i := range waitings {
		list[i] = waitings[i].kind
	}
	return list
}

// Says completes "it waits for".
func (w Waiting) Says() string {
	for i := range waitings {
		if waitings[i].kind == w {
			return waitings[i].says
		}
	}
	return string(w)
}

// WaitReason is a reason why a live task, or a step of it, does not go on.
type WaitReason struct {
	// Step is empty if the task as a whole waits.
	Step string
	Kind Waiting
	// Call is that of the attempt that a step waits to repeat; empty if it waits for something else.
	Call Call
	// Since and Until are zero if the state does not have them.
	Since, Until Instant
}

// WaitingFor returns what a task and its steps wait for, as far as its state says so. What keeps a step in the queue of its agent is not
// in it: [Availability] says that. Steps that an agent does are left out while they run.
func WaitingFor(t *Task, now Instant) iter.Seq[WaitReason] {
	return func(yield func(WaitReason) bool) {
		if t.State.Ended() || !wholeWaits(t, yield) {
			return
		}
		for _, x := range t.Live() {
			if w, ok := x.waitsForChild(); ok && !yield(w) {
				return
			}
			if x.Waits() && !yield(WaitReason{Step: x.Path, Kind: x.Wait.For(), Since: x.StartedAt, Until: x.Wait.Until}) {
				return
			}
		}
		if !t.Starts() {
			return
		}
		if p := t.Permit; p != nil && p.State == PermitStateAsked && !yield(WaitReason{Kind: WaitingConcurrency, Since: p.At}) {
			return
		}
		for i := range t.StepPermits {
			if p := &t.StepPermits[i]; p.State == PermitStateAsked && !yield(WaitReason{Step: p.Path, Kind: WaitingLimit, Since: p.At}) {
				return
			}
		}
		if undoWaits(t, now) && !yield(WaitReason{Kind: WaitingQuiet, Until: t.QuietAt}) {
			return
		}
		for _, x := range t.Live() {
			if w, ok := x.again(now); ok && !yield(w) {
				return
			}
			if next := x.NextItem(t); next != nil && next.NotBefore() > now && !yield(WaitReason{Step: next.Path, Kind: WaitingQuiet, Until: next.UndoQuietAt}) {
				return
			}
			if itemWaits(t, x, now) && !yield(WaitReason{Step: x.Path, Kind: WaitingQuiet, Until: t.QuietAt}) {
				return
			}
		}
	}
}

// wholeWaits yields what the task as a whole waits for, and returns whether to go on.
func wholeWaits(t *Task, yield func(WaitReason) bool) bool {
	if t.Paused != nil && !yield(WaitReason{Kind: WaitingPaused, Since: t.Paused.Since}) {
		return false
	}
	if t.State == TaskStateError && !yield(WaitReason{Kind: WaitingOperator, Since: t.ParkedAt}) {
		return false
	}
	return t.NotBefore == 0 || yield(WaitReason{Kind: WaitingNotBefore, Since: t.SubmittedAt, Until: t.NotBefore})
}

// undoWaits says whether the undo of a task waits only for requests in doubt.
func undoWaits(t *Task, now Instant) bool {
	if t.State != TaskStateUndoing || t.QuietAt <= now {
		return false
	}
	running, _ := t.RunningStep()
	return running == nil
}

// itemWaits says whether the undo of an item whose failure is tolerated waits only for requests in doubt.
func itemWaits(t *Task, x *Step, now Instant) bool {
	if t.State != TaskStateProcessing || t.QuietAt <= now || !x.Tolerated() || !x.ToUndo() {
		return false
	}
	return x.Undo == nil || x.Undo.State == StepStateWaiting && x.Undo.RetryAt <= now
}

// again says why a step waits for its next attempt; false if it does not, or its time has come.
func (s *Step) again(now Instant) (w WaitReason, waits bool) {
	switch u := s.Undo; {
	case u != nil && u.State == StepStateWaiting && u.RetryAt > now:
		return WaitReason{Step: s.Path, Kind: WaitingAgain(u.Error, false), Call: s.Call(Undo), Since: u.EndedAt, Until: u.RetryAt}, true
	case u == nil && s.State == StepStateWaiting && s.Wait == nil && s.NotBefore() > max(s.RetryAt, now):
		return WaitReason{Step: s.Path, Kind: WaitingQuiet, Until: s.UndoQuietAt}, true
	case u == nil && s.State == StepStateWaiting && s.Wait == nil && s.RetryAt > now:
		kind := WaitingAgain(s.Error, s.Tries == 0 && s.CoolDowns > 0)
		return WaitReason{Step: s.Path, Kind: kind, Call: s.Call(Do), Since: s.EndedAt, Until: s.RetryAt}, true
	}
	return w, false
}

// WaitingAgain says what a step waits for whose latest attempt failed, until its next attempt. If the agent did not make the attempt, its
// service is failing, or it lacks the key of the content.
func WaitingAgain(e *Error, coolDown bool) Waiting {
	switch {
	case e.LacksKey():
		return WaitingKey
	case e != nil && e.Class == ClassUnavailable:
		return WaitingAgent
	case coolDown:
		return WaitingCoolDown
	}
	return WaitingRetry
}

// LacksKey says whether an agent did not make an attempt because it could not open its content. The error may be nil.
func (e *Error) LacksKey() bool {
	return e != nil && e.Class == ClassUnavailable && e.Code == CodeNoKey
}

// LateAfter is how long after it should have looked at a task an owner counts as late. A batch takes a fraction of that.
const LateAfter = 5 * time.Second

// WaitsForOwner says whether a live task waits for the owner of its partition, by the keys of its row, and since when; zero if that is not known.
func WaitsForOwner(k *Keys, now Instant) (since Instant, waits bool) {
	if k.State.Ended() {
		return 0, false
	}
	for _, at := range []Instant{k.Due, k.Wake} {
		if at != 0 && now.Sub(at) > LateAfter && (since == 0 || at < since) {
			since = at
		}
	}
	return since, since != 0 || k.Unplanned
}

// HeldForKey says whether the owner of a task cannot go on with it for lack of a key, by the keys of its row. An attempt that an agent refused for
// lack of a key counts there too.
func HeldForKey(t *Task, k *Keys) bool {
	refused := 0
	for _, s := range t.Live() {
		if s.State == StepStateWaiting && s.Error.LacksKey() || s.Undo != nil && s.Undo.State == StepStateWaiting && s.Undo.Error.LacksKey() {
			refused++
		}
	}
	n := 0
	for _, w := range k.Waits {
		if w.Kind == WaitingKey {
			n += w.N
		}
	}
	return n > refused
}

// WaitCount says how many steps wait for something of a kind; a task that waits as a whole counts as one.
type WaitCount struct {
	Kind Waiting `json:"kind"`
	N    int     `json:"n"`
}

// CountWaits counts what WaitingFor returns.
func CountWaits(t *Task, now Instant) (counts []WaitCount) {
	for w := range WaitingFor(t, now) {
		i := 0
		for i < len(counts) && counts[i].Kind != w.Kind {
			i++
		}
		if i == len(counts) {
			counts = append(counts, WaitCount{Kind: w.Kind})
		}
		counts[i].N++
	}
	return counts
}

// Availability is what a node knows of the agents for which steps are queued.
type Availability struct {
	// Offered says whether a live instance offers an operation of an agent.
	Offered func(Call) bool
	// Paused says whether an operator paused an agent.
	Paused func(agent string) bool
	// Missing are the operations that steps wait for because nobody offers them or no broker takes requests for them.
	Missing []Missing
}

// QueuedFor says what the steps in the queue of an agent's operation wait for, and what is known of that.
func (a *Availability) QueuedFor(c Call) (Waiting, Missing) {
	var m Missing
	if i := slices.IndexFunc(a.Missing, func(x Missing) bool { return x.Call() == c }); i >= 0 {
		m = a.Missing[i]
	}
	switch {
	case a.Paused(c.Agent):
		return WaitingPaused, m
	case m.Behind || !a.Offered(c):
		return WaitingAgent, m
	}
	return WaitingCapacity, m
}
