package supervisor

import (
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// unopened knows what waits because a sealed value cannot be opened now: the topic of keys cannot be read, or the key file of this node lacks a
// key. Both may pass, but a dead letter, a failed step or an undo is final. So nothing is decided, and it is tried again.
//
// An input waits where it is, and so do the inputs behind it in its topic, because none may overtake it. If the topic of keys cannot be read, they
// wait until it can. But the key file of one node may lack a key forever, and no input may stop a partition: after inputKind.keyless an input
// that needs such a key is set aside.
//
// A task waits alone, for as long as it takes. Its row in the store says when it is tried again, so what is kept in memory about it may be lost.
type unopened struct {
	*core
	// tasks are those that wait.
	tasks map[string]*unopenedTask
	// missed says since when inputs of a topic have missed a key.
	missed map[missing]missedKey
	// reason says why the latest value could not be opened.
	reason string
}

// unopenedTask is a task of which something waits.
type unopenedTask struct {
	// until is when it is tried again.
	until events.Instant
	// starts are the steps whose next attempt cannot begin before that.
	starts []string
}

// missing is a key that inputs of a topic need: the index of their kind, and the key as NoKeyError.Missing names it. How long they may wait depends on the
// topic.
type missing struct {
	kind int
	key  string
}

// missedKey says when a key was first missed, and last.
type missedKey struct{ first, last events.Instant }

const (
	// inputRetry and taskRetry are how long an input, and a task, waits before it is tried again.
	inputRetry, taskRetry = time.Second, 5 * time.Second
	// keylessReports and keylessSubmissions are how long an input holds back those behind it because of a key that the key file lacks. Running
	// tasks wait for reports; submissions keep only new tasks waiting.
	keylessReports, keylessSubmissions = time.Minute, 10 * time.Minute
	// missedFor is how long after it was last missed a key is remembered, and mostMissed how many.
	missedFor, mostMissed = time.Hour, 100
)

func (u *unopened) reset() {
	*u = unopened{core: u.core, tasks: map[string]*unopenedTask{}, missed: u.missed}
}

// tooLong says whether the first input of a queue must not hold back others any longer. Until it is judged, the queue knows what the input misses.
func (u *unopened) tooLong(q *inputQueue, why *events.NoKeyError) bool {
	u.reason = why.Reason
	if why.Missing == "" {
		return false // the key that it missed before may be missing still
	}
	q.missing = missing{q.kind, why.Missing}
	m, known := u.missed[q.missing]
	if !known || u.now.Sub(m.last) > missedFor || m.first > u.now {
		if u.missed == nil || len(u.missed) >= mostMissed {
			u.missed = map[missing]missedKey{}
		}
		m.first = u.now
	}
	m.last = u.now
	u.missed[q.missing] = m
	return u.now.Sub(m.first) >= inputKinds[q.kind].keyless
}

// hold lets a task wait, or the next attempt of one of its steps.
func (u *unopened) hold(id, path string, why *events.NoKeyError) {
	x := u.tasks[id]
	if x == nil {
		x = &unopenedTask{}
		u.tasks[id] = x
	}
	if x.until <= u.now {
		x.until, x.starts = u.now.Add(taskRetry), nil
	}
	if path != "" && !slices.Contains(x.starts, path) {
		x.starts = append(x.starts, path)
	}
	u.reason = why.Reason
}

// write makes the store write the row of a waiting task, which says when it is tried again.
func (u *unopened) write(id string) {
	u.state.Touch(id)
	u.timers.moved = true
}

// settle notes that a plan of the task waits for nothing.
func (u *unopened) settle(id string) {
	if x := u.tasks[id]; x != nil && len(x.starts) == 0 {
		delete(u.tasks, id)
	}
}

// opens notes that the first input of a queue, which waited, was judged, so the key that it missed is there. If it is missing later, the time counts
// from then. Nothing is known about other keys.
func (u *unopened) opens(q *inputQueue) { delete(u.missed, q.missing) }

// waits says whether an attempt must not begin yet.
func (u *unopened) waits(r events.Ready) bool {
	x := u.tasks[r.Task]
	return x != nil && x.until > u.now && slices.Contains(x.starts, r.Path)
}

// until returns when the task is tried again; zero if it waits for no key.
func (u *unopened) until(id string) events.Instant {
	if x := u.tasks[id]; x != nil {
		return x.until
	}
	return 0
}

// count adds to the counts of what a task waits for that it waits for a key.
func (u *unopened) count(waits []events.WaitCount, id string) []events.WaitCount {
	if u.until(id) <= u.now {
		return waits
	}
	return append(waits, events.WaitCount{Kind: events.WaitingKey, N: 1})
}

// woke says whether a task is tried again now. Its row says that its time has come, but none of its timers is due. Such a row belongs to a task that
// waited for a key, or to one that has changed and whose new row is not written yet.
func (u *unopened) woke(t *events.Task) bool {
	if u.cfg.Keys == nil || u.until(t.ID) > u.now { // a task in clear text may hold sealed values too
		return false
	}
	delete(u.tasks, t.ID)
	return true
}

// Unopened is what waits for sealed values that cannot be opened now.
type Unopened struct {
	// Inputs counts the inputs that cannot be opened now and those that wait behind them.
	Inputs PerInput[int]
	Tasks  int
	// Reason says why the latest could not be opened; empty if nothing waits.
	Reason string
}

// status returns what waits.
func (u *unopened) status() (x Unopened) {
	for _, q := range u.inbox.queues {
		if q.keyless {
			x.Inputs[q.kind] = len(q.items)
		}
	}
	x.Tasks = len(u.tasks)
	if x.Tasks > 0 || x.Inputs != (PerInput[int]{}) {
		x.Reason = u.reason
	}
	return x
}
