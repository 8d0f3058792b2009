package supervisor

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/events"
)

// timers decides about everything that falls due. A timer due at T whose decision an unread report could contradict fires only if
// it is still due once everything in its inputs below an end offset that was requested after T, in this epoch, has been judged;
// otherwise a take-over would time out large amounts of work that was answered long ago.
// docs/protocol.md, "A timer waits for the reports".
type timers struct {
	*core
	ends question
	// askedAt is when the ends were last requested.
	askedAt events.Instant
	// goals holds, for each input, the end offset that is not reached yet. A newer answer does not replace it: under a
	// steady load the goal would move as fast as the owner gets closer, and no timer would ever fire.
	goals map[events.Input]goal
	// horizon holds, for each input, the latest time such that everything durable before it has been judged.
	horizon map[events.Input]events.Instant
	// moved says that the rows of some tasks changed with the time alone and are not written yet: retries fell due, or deadlines came.
	moved bool
	// expiredAt is the time up to which held requests have expired.
	expiredAt events.Instant
	// sweptAt is when sweeping was last tried.
	sweptAt events.Instant
}

// goal is an end offset, with the time at which it was requested.
type goal struct {
	end     int64
	askedAt events.Instant
}

// timerKind says what a kind of timer waits for and what it decides.
type timerKind struct {
	kind events.TimerKind
	// reads are the inputs that must be judged up to an end requested after the timer fell due, or nil.
	reads []events.Input
	// decide returns the fact for a due timer of a task, or nil if it is no longer due. If it is not set, the planner
	// continues the task.
	decide func(t *timers, task *events.Task, m events.Timer) events.Body
}

// timerKinds are the timers of tasks. The store knows when they are due. Those without inputs to read decide nothing that a report could contradict,
// and must not wait while the reports cannot be read. A reminder and a soft limit only alert; the others say that an attempt may start now. A retry or the end
// of a cool-down follows an attempt that is over, and no report about that counts any more (INV7). The same holds for the attempts in doubt
// whose quiet time ends; while an attempt of the task runs, no undo starts anyway.
var timerKinds = []timerKind{
	//mutant:timeout-waits-for-reports
	{kind: events.TimerCompleteBy, reads: outcomeInputs, decide: (*timers).expireAttempt},
	//mutant:deadline-waits-for-reports
	{kind: events.TimerDeadline, reads: outcomeInputs, decide: (*timers).passDeadline},
	//mutant:start-limit-waits-for-reports
	{kind: events.TimerStartBy, reads: outcomeInputs, decide: (*timers).expireStart},
	{kind: events.TimerRetry},
	//mutant:signal-timeout-waits-for-submissions
	{kind: events.TimerSignal, reads: everyInput, decide: (*timers).expireWait},
	{kind: events.TimerSleep, decide: (*timers).wake},
	{kind: events.TimerQuiet},
	{kind: events.TimerNotBefore, decide: (*timers).passNotBefore},
	{kind: events.TimerReminder, decide: (*timers).remind},
	{kind: events.TimerSoftLimit, decide: passSoftLimit},
	{kind: events.TimerPermit, decide: (*timers).askAgain},
	// An answer that is not read yet makes the repeat needless. (The store finds running attempts by such timers, too.)
	{kind: events.TimerChild, reads: outcomeInputs, decide: (*timers).askChild},
}

func rowOf(k events.TimerKind) *timerKind {
	return &timerKinds[slices.IndexFunc(timerKinds, func(row timerKind) bool { return row.kind == k })]
}

// partitionTimer is a timer of the partition.
type partitionTimer struct {
	kind  events.TimerKind
	reads []events.Input
	// due says whether something is due now; fire decides everything that is due at the instant.
	due  func(t *timers) (bool, error)
	fire func(t *timers, at events.Instant) error
}

// partitionTimers are the timers of the partition itself. Forgetting anything waits for every input.
var partitionTimers = []partitionTimer{
	//mutant:held-expiry-waits-for-submissions
	{events.TimerExpiry, everyInput, (*timers).heldDue, (*timers).expireHeld},
	//mutant:sweep-waits-for-submissions
	{events.TimerHorizon, everyInput, (*timers).sweepDue, (*timers).sweep},
	{events.TimerPermit, nil, (*timers).permitsDue, (*timers).firePermits},
}

// Bounds of one look at the timers; the rest comes with the next batch.
const (
	dueBatch   = 500
	sweepBatch = 200
	sweepBytes = 16 << 20 // of the tasks that are read for it, once one of them may be forgotten
	// sweepBytesAtMost bounds what is read if none may.
	sweepBytesAtMost = 16 * sweepBytes
	sweepEvery       = 10 * time.Second
)

func (t *timers) reset() {
	//mutant:judged-in-this-epoch
	*t = timers{core: t.core}
}

// ask requests the ends of the inputs if something is due or waits for them.
func (t *timers) ask() error {
	if t.ends.asked || len(t.goals) == len(everyInput) {
		return nil
	}
	if !t.outbox.waitsForReports() && !t.alone.asks() {
		if due, err := t.somethingDue(); err != nil || !due {
			return err
		}
	}
	t.ends.ask()
	t.askedAt = t.now
	t.say(AskEnds{t.gen, t.ends.number})
	return nil
}

func (t *timers) somethingDue() (bool, error) {
	ids, err := t.store.Due(t.now, 1)
	if err != nil || len(ids) > 0 {
		return err == nil, err
	}
	for i := range partitionTimers {
		if due, err := partitionTimers[i].due(t); err != nil || due {
			return due, err
		}
	}
	return false, nil
}

// learnEnds takes the answer to AskEnds.
func (t *timers) learnEnds(ends map[events.Input]int64) {
	for in, end := range ends {
		if _, unreached := t.goals[in]; !unreached {
			if t.goals == nil {
				t.goals = map[events.Input]goal{}
			}
			//mutant:end-asked-after-due
			t.goals[in] = goal{end, t.askedAt}
		}
	}
}

// moveHorizon moves the horizon when everything below the requested ends has been judged.
func (t *timers) moveHorizon() error {
	for in, g := range t.goals {
		if !t.inbox.judgedBelow(in, g.end) {
			continue
		}
		if t.horizon == nil {
			t.horizon = map[events.Input]events.Instant{}
		}
		t.horizon[in] = max(t.horizon[in], g.askedAt)
		delete(t.goals, in)
	}
	return t.outbox.sendKept(t.judgedUntil(outcomeInputs))
}

// blocked returns the input that timers have waited for longest although every record of it that can be read has been judged, or
// the zero value.
func (t *timers) blocked() (b Blocked) {
	for in, g := range t.goals {
		if t.inbox.backlog(in) == 0 && (b.Since == 0 || g.askedAt < b.Since || g.askedAt == b.Since && in < b.Input) {
			b = Blocked{in, g.askedAt}
		}
	}
	return b
}

// judgedUntil returns the latest time such that everything that was durable in the inputs before it has been judged; zero if that
// is not known yet.
func (t *timers) judgedUntil(reads []events.Input) events.Instant {
	at := t.now
	for _, in := range reads {
		at = min(at, t.horizon[in])
	}
	return at
}

// reached returns the time up to which timers that wait for the inputs may fire.
func (t *timers) reached(reads []events.Input) events.Instant {
	if t.cfg.Off.off(RuleTimers) {
		reads = slices.DeleteFunc(slices.Clone(reads), func(in events.Input) bool { return slices.Contains(outcomeInputs, in) })
	}
	return t.judgedUntil(reads)
}

// fire decides the timers that are due.
func (t *timers) fire() (err error) {
	defer guard(&err, func(err error) error { return blame(t.judging.task, err) })
	ids, err := t.store.Waking(t.now, dueBatch)
	if err != nil {
		return err
	}
	if err := t.fireTasks(ids, true); err != nil {
		return err
	}
	at := t.reached(outcomeInputs)
	if at == 0 {
		return nil
	}
	if ids, err = t.store.Due(at, dueBatch); err != nil {
		return err
	}
	if err := t.fireTasks(ids, false); err != nil || t.full() {
		return err
	}
	for i := range partitionTimers {
		row := &partitionTimers[i]
		if err := row.fire(t, t.reached(row.reads)); err != nil {
			return err
		}
	}
	return nil
}

// fireTasks decides the timers of tasks. waking says that the store found the tasks by timers that wait for no input.
func (t *timers) fireTasks(ids []string, waking bool) error {
	for _, id := range ids {
		if t.full() {
			return nil
		}
		if err := t.fireTask(id, waking); err != nil {
			return blame(id, err)
		}
	}
	return nil
}

func (t *timers) fireTask(id string, waking bool) error {
	t.judging = judging{task: id}
	task, err := t.state.Task(id)
	if err != nil || task == nil {
		return err
	}
	list := task.Timers()
	sort.Slice(list, func(i, j int) bool { return list[i].Due < list[j].Due })
	moved, undecided := false, false
	for _, m := range list {
		row := rowOf(m.Kind)
		if m.Due > t.reached(row.reads) {
			continue
		}
		if row.decide == nil {
			// If another timer has brought the task here, its row says already that the step is in the queue. Writing it again would
			// change nothing, again and again, while that timer waits for an input.
			moved = moved || waking
			continue
		}
		body := row.decide(t, task, m)
		if body == nil {
			undecided = true
			continue
		}
		cause := events.CauseTimer(task.ID, task.Run, m.Path, m.Attempt, m.Kind)
		if err := t.record(&events.Fact{Task: task.ID, Body: body, Cause: cause}, nil); err != nil {
			return err
		}
		moved = true
	}
	if !moved && (undecided || !waking || !t.unopened.woke(task)) {
		return nil
	}
	t.moved = true
	t.state.Touch(id) // a retry that is due goes from the timers to the queue
	return t.planner.plan(id)
}

// expireAttempt times out an attempt that is still running at its complete-by time. Every running attempt has such a
// timer (INV10).
func (t *timers) expireAttempt(task *events.Task, m events.Timer) events.Body {
	if !task.Running(m.Path, m.Operation, m.Attempt) {
		return nil
	}
	s := task.Step(m.Path)
	if s.ByChild != nil && m.Operation == events.Do && s.Agent == "" {
		return events.AskChild(task, s, events.Do, "the time of step "+strconv.Quote(m.Path)+" of its parent is over", true)
	}
	c, started := s.Call(m.Operation), s.StartedAt
	if m.Operation == events.Undo {
		started = s.Undo.StartedAt
	}
	v := t.planner.verdict(Failure{
		Missing: t.dispatch.hasLeft(c),
		Unsent:  t.dispatch.unacknowledged(attempt{task.ID, m.Path, m.Operation, m.Attempt}, c.Agent, started),
		Task:    task, Path: m.Path, Operation: m.Operation, Effect: events.EffectInDoubt,
		Error: s.OutOfTime(m.Operation),
	})
	t.stats.Timeouts++
	return &events.Timeout{
		Step: m.Path, Operation: m.Operation, Attempt: m.Attempt, CompleteBy: m.Due, Verdict: v,
		QuietAt: t.planner.quietAfter(m.Due), // the agent of an attempt with a heartbeat knows of no later end
	}
}

// expireStart ends the wait of a step, or an undo, whose next attempt did not start in time.
func (t *timers) expireStart(task *events.Task, m events.Timer) events.Body {
	if !slices.Contains(task.Timers(), m) { // another timer that was due at the same time has decided
		return nil
	}
	v := t.planner.verdict(Failure{
		Task: task, Path: m.Path, Operation: m.Operation, Over: true, Effect: events.EffectNone,
		Error: events.Error{Class: events.ClassTimeout, Message: fmt.Sprintf("attempt %d did not start before %s", m.Attempt, m.Due)},
	})
	return &events.Timeout{Step: m.Path, Operation: m.Operation, StartBy: m.Due, Verdict: v}
}

// wake ends a step that sleeps. No input says anything about it but what an operator decides, and the first in the log wins.
func (*timers) wake(task *events.Task, m events.Timer) events.Body {
	if !task.Step(m.Path).Waits() {
		return nil
	}
	return &events.StepCompleted{Step: m.Path}
}

// expireWait times out a step for which no signal came in time.
func (t *timers) expireWait(task *events.Task, m events.Timer) events.Body {
	if !task.Step(m.Path).Waits() || !task.Starts() {
		return nil
	}
	v := t.planner.verdict(Failure{
		Over: true, Task: task, Path: m.Path, Operation: events.Do, Effect: events.EffectNone,
		Error: events.Error{Class: events.ClassTimeout, Message: "no signal came in time"},
	})
	t.stats.Timeouts++
	return &events.Timeout{Step: m.Path, Operation: events.Do, CompleteBy: m.Due, Verdict: v}
}

// passNotBefore lets a task begin. Nothing of it has started, so no input but a request can say anything about it, and the first in the log wins.
func (*timers) passNotBefore(task *events.Task, _ events.Timer) events.Body {
	if task.NotBefore == 0 || task.Halted() { // another timer that was due at the same time has decided
		return nil
	}
	return &events.NotBeforePassed{NotBefore: task.NotBefore}
}

func (t *timers) passDeadline(task *events.Task, _ events.Timer) events.Body {
	if task.DeadlinePassed || task.State.Ended() {
		return nil
	}
	action := events.DeadlineUndo
	//mutant:deadline-of-paused-alerts
	if task.Irrevocable() || task.Halted() {
		action = events.DeadlineAlert
	}
	return &events.DeadlinePassed{Deadline: task.Deadline, Action: action}
}

func (*timers) remind(task *events.Task, _ events.Timer) events.Body {
	return &events.TaskReminded{Reminder: task.Reminders + 1, Since: task.ParkedAt, Reason: task.Reason}
}

// passSoftLimit says that a step or a task is not over at its soft limit. It may be over by a report that is not read yet; the alert then
// comes for nothing.
func passSoftLimit(_ *timers, task *events.Task, m events.Timer) events.Body {
	if !slices.Contains(task.Timers(), m) { // another timer that was due at the same time has decided
		return nil
	}
	b := &events.SoftLimitPassed{Step: m.Path, Since: task.SoftFrom, SoftAt: m.Due}
	if m.Path != "" {
		b.Since = task.Step(m.Path).SoftFrom
	}
	return b
}

func (t *timers) heldDue() (bool, error) {
	for _, h := range t.state.Held() {
		if h.ExpiresAt <= t.now {
			return true, nil
		}
	}
	return false, nil
}

// expireHeld rejects held requests whose task never came.
func (t *timers) expireHeld(at events.Instant) error {
	if at == t.expiredAt { // nothing new can have fallen due, and there may be many held requests if somebody cancels unknown tasks
		return nil
	}
	held := t.state.Held()
	sort.Slice(held, func(i, j int) bool {
		a, b := held[i], held[j]
		return cmp.Or(cmp.Compare(a.ExpiresAt, b.ExpiresAt), cmp.Compare(a.Request.Task, b.Request.Task), cmp.Compare(a.Request.ID, b.Request.ID)) < 0
	})
	for _, h := range held {
		if h.ExpiresAt > at || t.full() {
			break
		}
		f := &events.Fact{
			Task:  h.Request.Task,
			Body:  &events.InputRejected{Reason: events.RejectExpired, Detail: "no task with this ID was submitted while the request was held", Held: h.Request.ID, HeldAt: h.Cause},
			Cause: events.CauseTimer(h.Request.Task, 1, "", 0, events.TimerExpiry),
		}
		if err := t.record(f, nil); err != nil {
			return err
		}
	}
	if !t.full() {
		t.expiredAt = at
	}
	return nil
}
