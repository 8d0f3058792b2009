package verify

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// uncarried is a task that is older than the log, and whose rows are still to come. What is known about it until then is compared with them.
type uncarried struct {
	// last is its latest fact, at that place, and facts counts those that count towards its bound.
	last  events.Position
	place Place
	facts int
	ended bool
	// starts are the facts that have work requests as their effects. These name the incarnation, which the rows give.
	starts   []*events.Fact
	attempts map[attemptOf]*attempted
	requests map[string]events.Position
	// steps are those that its facts name.
	steps map[string]bool
	// silent are the reports, requests and permits that led to no fact, and submissions the submissions.
	silent      []*silentReport
	submissions []silentCopy
}

// attempted is the latest attempt of which a fact tells.
type attempted struct {
	attempt  int
	running  bool
	started  int64 // -1 if it began before the log
	position events.Position
}

// silence is an input that led to no fact, and the fact that passes it.
type silence struct{ place, at Place }

type silentCopy struct {
	silence
	content uint64
}

// silentReport is a report, a request if verb is set, or the grant of a permit if link is.
type silentReport struct {
	silence
	verb   events.Verb
	id     string
	report events.Report
	link   events.Link
	// early says that what it is about began only later, and late that it ended only later.
	early, late bool
}

func newUncarried() *uncarried {
	return &uncarried{attempts: map[attemptOf]*attempted{}, requests: map[string]events.Position{}, steps: map[string]bool{}}
}

// toCome returns what is known about a task whose rows are still to come. It is nil for any other task.
func (c *carry) toCome(id string) *uncarried {
	if c == nil || !c.first || id <= c.last || c.gone[id] {
		return nil
	}
	u := c.unknown[id]
	if u == nil {
		u = newUncarried()
		c.unknown[id] = u
	}
	return u
}

// tell takes a fact of the task.
func (u *uncarried) tell(p *partition, f *events.Fact, at Place) {
	wrong := func(check, kind, step, format string, args ...any) {
		p.book.add(Finding{Check: check, Kind: kind, Place: at, Task: f.Task, Step: step, What: fmt.Sprintf(format, args...)})
	}
	stays := staysEnded(f.Body)
	if u.ended && !stays && !continues(f.Body) {
		wrong(CheckAttempts, "behind_the_end", "", "%s changes a task that ended (INV9)", f.Body.Name())
	}
	u.last, u.place, u.ended = f.Position(), at, u.ended && stays
	if !aboutItem(f.Body) {
		u.facts++
	}
	if id := judgedBy(f.Body); id != "" {
		if _, twice := u.requests[id]; twice {
			wrong(CheckInputs, "judged_twice", "", "the request %q is judged a second time", id)
		}
		u.requests[id] = f.Position()
	}
	u.steps[stepIn(f.Body)] = true
	switch b := f.Body.(type) {
	case *events.StepStarted:
		u.startsWith(f)
		u.begin(p, f, at, attemptOf{b.Step, events.Do}, b.Attempt, wrong)
	case *events.CompensationStarted:
		u.startsWith(f)
		u.begin(p, f, at, attemptOf{b.Step, events.Undo}, b.Attempt, wrong)
	case *events.StepProgressed:
		if !aboutItem(b) {
			u.facts--
		}
	case *events.RequestRefused, *events.ChildAnswered:
		u.facts--
	case *events.ChildAsked:
		if b.Cancel == "" && !aboutItem(b) {
			u.facts--
		}
	case *events.PermitAsked, *events.PermitGranted:
		u.permit(b, linkIn(b))
	case *events.TaskProcessed, *events.TaskUndone, *events.TaskTerminated:
		u.ended = true
	case *events.EffectFailed:
		if b.Failed != nil {
			u.end(p, attemptOf{b.Failed.Step, events.Do}, b.Failed.Attempt, b.Failed, wrong)
		} else if b.CompensationFailed != nil {
			u.end(p, attemptOf{b.CompensationFailed.Step, events.Undo}, b.CompensationFailed.Attempt, b.CompensationFailed, wrong)
		}
	default:
		if of, attempt := outcomeIn(f.Body); attempt > 0 {
			u.end(p, of, attempt, f.Body, wrong)
		}
	}
}

// outcomeIn returns the attempt that a fact ends; 0 if it ends none, or an operator decided it.
func outcomeIn(body events.Body) (attemptOf, int) {
	switch b := body.(type) {
	case *events.StepCompleted:
		if b.Request == "" {
			return attemptOf{b.Step, events.Do}, b.Attempt
		}
	case *events.StepFailed:
		return attemptOf{b.Step, events.Do}, b.Attempt
	case *events.Timeout:
		return attemptOf{b.Step, b.Operation}, b.Attempt
	case *events.Compensated:
		if b.Request == "" {
			return attemptOf{b.Step, events.Undo}, b.Attempt
		}
	case *events.CompensationFailed:
		return attemptOf{b.Step, events.Undo}, b.Attempt
	}
	return attemptOf{}, 0
}

type wronger func(check, kind, step, format string, args ...any)

// begin takes the start of an attempt.
func (u *uncarried) begin(p *partition, f *events.Fact, at Place, of attemptOf, attempt int, wrong wronger) {
	p.count.Attempts++
	if of.op == events.Undo {
		p.count.Undos++
	}
	if !startsRelative(f.Body) {
		expectAny(p, f)
	}
	x := u.attempts[of]
	switch {
	case x != nil && x.running:
		wrong(CheckAttempts, "two_at_once", of.step, "attempt %d of the %s begins while attempt %d runs", attempt, of.op, x.attempt)
	case x != nil && attempt != x.attempt+1:
		wrong(CheckAttempts, "attempt_numbers", of.step, "attempt %d of the %s begins after attempt %d", attempt, of.op, x.attempt)
	}
	u.attempts[of] = &attempted{attempt: attempt, running: true, started: at.Offset, position: f.Position()}
	for _, r := range u.silent {
		r.early = r.early || r.about(of, attempt)
	}
}

// end takes the outcome of an attempt.
func (u *uncarried) end(p *partition, of attemptOf, attempt int, body events.Body, wrong wronger) {
	x := u.attempts[of]
	switch {
	case x == nil:
		x = &attempted{attempt: attempt, started: -1}
		u.attempts[of] = x
	case attempt != x.attempt || !x.running:
		wrong(CheckAttempts, "second_outcome", of.step, "%s of attempt %d of the %s, although attempt %d is the latest, or has its outcome already (INV7)", body.Name(), attempt, of.op, x.attempt)
	}
	x.running = false
	if _, timedOut := body.(*events.Timeout); timedOut && x.started >= 0 {
		p.notSent(x.position)
	}
	for _, r := range u.silent {
		r.late = r.late || !r.early && r.about(of, attempt) && r.report.Result != events.ResultProgress
	}
}

// permit takes a fact about a permit.
func (u *uncarried) permit(body events.Body, link events.Link) {
	for _, r := range u.silent {
		if r.link != link {
			continue
		}
		switch b := body.(type) {
		case *events.PermitAsked:
			r.early = r.early || !b.Repeat
		case *events.PermitGranted:
			r.late = !r.early
		}
	}
}

func (r *silentReport) about(of attemptOf, attempt int) bool {
	return r.verb == "" && r.link == events.Link{} && r.report.Step == of.step && r.report.Operation == of.op && r.report.Attempt == attempt
}

// never reports what is known about a task that was not carried.
func (u *uncarried) never(p *partition, id string) {
	if !u.last.IsZero() {
		p.book.add(Finding{Check: CheckAttempts, Kind: "no_task", Place: u.place, Task: id, What: fmt.Sprintf("the fact %s is for a task that was never accepted, and is not carried", u.last)})
	}
	for _, s := range u.submissions {
		p.book.add(Finding{Check: CheckInputs, Kind: "lost", Place: s.place, Task: id, What: fmt.Sprintf("the submission was never accepted, rejected or sent on, and %s passes it without a fact (INV12)", s.at)})
	}
}

// forgottenUncarried takes the fact that a task is forgotten before its rows have come, and says whether it is one.
func forgottenUncarried(p *partition, id string, at Place) bool {
	if _, known := p.known[digestOf(id)]; known {
		return false
	}
	u := p.carry.toCome(id)
	if u == nil {
		return false
	}
	c := p.carry
	if !u.last.IsZero() && !u.ended {
		p.book.add(Finding{Check: CheckAttempts, Kind: "swept", Place: at, Task: id, What: "a task that has not ended is forgotten"})
	}
	delete(c.unknown, id)
	c.gone[id] = true
	c.left--
	p.swept[digestOf(id)] = 0
	p.count.Swept++
	if len(u.starts) > 0 {
		p.forgotten = max(p.forgotten, p.time)
	}
	return true
}
