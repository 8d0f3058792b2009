package wftest

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/events"
)

// Call is a call of an agent that a case made.
type Call struct {
	// At is the time since the submission.
	At        events.Duration  `json:"at"`
	Step      string           `json:"step"`
	Operation events.Operation `json:"operation"`
	Attempt   int              `json:"attempt"`
	// Answer describes what the agent answered.
	Answer string `json:"answer"`
}

// reply is the report of an attempt, on its way.
type reply struct {
	at     events.Instant
	report events.Report
	// child is the answer of a task that does a step, instead of a report.
	child *events.ChildAnswer
}

// playing is a case under way.
type playing struct {
	*engine
	c *Case
	// used counts the answers of each mock that were given.
	used    map[*mock]int
	replies []reply
	// asked is how many requests were sent.
	asked int
	calls []Call
	// inputs of undos, by step.
	undoInputs map[string]events.Work
	failures   []Failure
	// starved means that a call got no answer: going on would only repeat that.
	starved bool
}

const (
	// answersAfter is how long a call takes whose answer does not say it.
	answersAfter = time.Millisecond
	// maxMoves bounds how often the time of a case moves.
	maxMoves = 100_000
)

// play runs the case until the task ends, its time is over, or nothing more can happen.
func (p *playing) play() {
	s, err := events.Marshal(p.c.submission)
	if err != nil {
		p.Err = err
		return
	}
	for p.ask() { // a request at 0s comes before the task
	}
	p.Put(events.Submissions, events.Record{Key: []byte(p.c.submission.ID), Value: s})
	p.settle()
	for moves := 0; p.Err == nil && !p.over(); moves++ {
		next := p.next()
		if next == 0 || p.c.advance > 0 && next > p.end() {
			break
		}
		if moves == maxMoves {
			p.Err = fmt.Errorf("the time moved %d times without an end: give the case a shorter advance", maxMoves)
			return
		}
		p.Now = next
		p.report()
		p.Tick()
		p.settle()
	}
	if p.Err == nil && !p.over() && p.c.advance > 0 && p.Now < p.end() {
		p.Now = p.end()
		p.Tick()
		p.settle()
	}
}

func (p *playing) end() events.Instant { return begin.Add(p.c.advance.Std()) }

// settle answers calls and sends requests until nothing more happens at this instant.
func (p *playing) settle() {
	for p.Err == nil {
		p.Run()
		if !p.answer() && !p.ask() {
			return
		}
	}
}

// over says whether the case has ended before its time.
func (p *playing) over() bool {
	t := p.task()
	switch {
	case p.starved:
		return true
	case t == nil:
		return true // rejected
	case t.State.Ended():
		return true
	case t.State == events.TaskStateError:
		return p.c.advance == 0 && len(p.replies) == 0 && (p.asked == len(p.c.requests) || p.c.requests[p.asked].state != "")
	}
	return false
}

// task returns the task, nil if the submission was rejected.
func (p *playing) task() *events.Task {
	t, err := p.State.Task(p.c.submission.ID)
	if err != nil {
		p.Err = err
	}
	return t
}

// answer takes the work requests and plans the reports about them.
func (p *playing) answer() bool {
	list := p.works
	p.works = nil
	defer p.cancel()
	for _, w := range list {
		p.call(w)
	}
	return len(list) > 0
}

func (p *playing) call(w call) {
	mocks, key := p.c.mocks, "mocks"
	if w.Operation == events.Undo {
		mocks, key = p.c.undoMocks, "undo_mocks"
		p.undoInputs[w.Step] = w.Work
	}
	of := w.Step
	m, ok := mocks[of]
	if !ok { // the mock of the step stands for its items that have none
		of = events.DefinedStep(w.Step)
		m = mocks[of]
	}
	made := Call{At: events.Duration(p.Now.Sub(begin)), Step: w.Step, Operation: w.Operation, Attempt: w.Attempt}
	switch {
	case m == nil:
		p.unanswered(&made, p.c.Line, fmt.Sprintf("there is no mock: add %s: {%s: %s}", key, of, simple(of != w.Step)))
	case !m.always && p.used[m] == len(m.answers):
		p.unanswered(&made, m.line, fmt.Sprintf("its mock has only %s: add one to %s.%s, or give one answer as a mapping for all calls", counted(len(m.answers), "answer"), key, of))
	default:
		a := m.answers[0]
		if !m.always {
			a = m.answers[p.used[m]]
		}
		p.used[m]++
		made.Answer = a.describe()
		if !a.silent {
			x := reply{at: p.Now.Add(max(a.after.Std(), answersAfter))}
			if w.child != nil {
				x.child = a.answerOf(w.child)
			} else {
				x.report = a.reportOn(w.Work)
			}
			p.replies = append(p.replies, x)
		}
	}
	p.calls = append(p.calls, made)
}

// simple is a mock that answers without an output: one call, or those of all items.
func simple(items bool) string {
	if items {
		return "{}"
	}
	return "[{}]"
}

func (p *playing) unanswered(c *Call, line int, why string) {
	p.starved = true
	c.Answer = "no mock"
	p.fail(line, "", "", "attempt %d to %s step %q has no answer: %s", c.Attempt, c.Operation, c.Step, why)
}

func (p *playing) fail(line int, expected, actual, format string, args ...any) {
	p.failures = append(p.failures, Failure{Line: line, Message: fmt.Sprintf(format, args...), Expected: expected, Actual: actual})
}

// counted returns the number and the noun, which takes an s in the plural.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func (a *answer) describe() string {
	switch {
	case a.silent:
		return "silent"
	case a.fault != nil:
		return string(a.fault.Class) + ": " + a.fault.Message
	}
	return "completed"
}

func (a *answer) reportOn(w events.Work) events.Report {
	r := events.Report{Task: w.Task, Run: w.Run, Step: w.Step, Operation: w.Operation, Attempt: w.Attempt, Ticket: w.Ticket,
		Result: events.ResultCompleted, Output: a.output, RetryAfter: a.retryAfter, Instance: "mock"}
	if a.fault != nil {
		r.Result, r.Error, r.Effect = events.ResultFailed, a.fault, a.effect
	}
	return r
}

// report sends the reports that are due.
func (p *playing) report() {
	var later []reply
	for _, x := range p.replies {
		if x.at > p.Now {
			later = append(later, x)
			continue
		}
		if x.child != nil {
			r, err := events.EncodeChildAnswer(*x.child, events.Subject{ID: x.child.Child, Source: "/test", Time: p.Now})
			if err != nil {
				p.Err = err
				return
			}
			p.Put(events.Reports, r)
			continue
		}
		id := x.report.Step + "/" + string(x.report.Operation) + "/" + strconv.Itoa(x.report.Attempt)
		r, err := events.EncodeReport(x.report, events.Subject{ID: id, Source: "/test", Time: p.Now})
		if err != nil {
			p.Err = err
			return
		}
		p.Put(events.Reports, r)
	}
	p.replies = later
}

// ask sends the next request if its point is reached. The requests keep their order.
func (p *playing) ask() bool {
	if p.asked == len(p.c.requests) || !p.reached(&p.c.requests[p.asked]) {
		return false
	}
	q := p.c.requests[p.asked].request
	q.Task = p.c.submission.ID
	p.asked++
	r, err := events.EncodeRequest(q, events.Subject{ID: q.ID, Source: "/test", Time: p.Now})
	if err != nil {
		p.Err = err
		return false
	}
	p.Put(events.Reports, r)
	return true
}

func requestID(number int) string { return "request-" + strconv.Itoa(number) }

func (p *playing) reached(q *request) bool {
	t := p.task()
	switch {
	case q.state == "":
		return p.Now >= begin.Add(q.at.Std())
	case t == nil:
		return false
	case q.step == "":
		return string(t.State) == q.state
	}
	return string(stepState(t, q.step)) == q.state
}

// stepState is not_started for a step that has not started.
func stepState(t *events.Task, step string) events.StepState {
	if s := t.Step(step); s != nil {
		return s.State
	}
	return events.StepStateNotStarted
}

// next returns the next instant at which something happens, 0 if nothing does.
func (p *playing) next() (at events.Instant) {
	sooner := func(x events.Instant) {
		if x > p.Now && (at == 0 || x < at) {
			at = x
		}
	}
	for _, r := range p.replies {
		sooner(r.at)
	}
	if p.asked < len(p.c.requests) && p.c.requests[p.asked].state == "" {
		sooner(begin.Add(p.c.requests[p.asked].at.Std()))
	}
	if t := p.task(); t != nil {
		for _, m := range t.Timers() {
			sooner(m.Due)
		}
	}
	return at
}
