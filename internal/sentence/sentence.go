package sentence

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/sagalog/sagalog/events"
)

// MaxBytes bounds a sentence: reasons, and lists of steps, may be long.
const MaxBytes = 2048

// shownProgress bounds how much of a progress a sentence shows, in bytes.
const shownProgress = 200

// Of returns the sentence of a fact with that name and content, without a full stop. A fact that this build does not know, because a later one
// wrote it, is named and no more.
func Of(name string, data []byte) string {
	body, err := events.NewBody(events.Name(name))
	if err != nil || len(data) > 0 && json.Unmarshal(data, body) != nil {
		return words(name)
	}
	for _, say := range []func(events.Body) string{ofChildren, ofTask, ofSteps, ofFailures, ofUndos, ofOperators, ofPermits} {
		if s := say(body); s != "" {
			return events.Clip(s, MaxBytes)
		}
	}
	return words(name)
}

// words splits the name of a fact: SomethingNew becomes "something new".
func words(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// because adds a reason, if there is one.
func because(s, reason string) string {
	if reason == "" {
		return s
	}
	return s + ": " + reason
}

func ofTask(body events.Body) string {
	switch b := body.(type) {
	case *events.Submitted:
		s := fmt.Sprintf("the task is accepted, of workflow %s, version %d", b.Workflow, b.Version)
		if b.Schedule != "" {
			s += ", for schedule " + b.Schedule
		}
		if b.Parent != nil {
			s += ", for step " + strconv.Quote(b.Parent.Link.Path) + " of task " + b.Parent.Link.Task
		}
		if b.NotBefore != 0 {
			s += "; no step starts before " + b.NotBefore.String()
		}
		return s
	case *events.NotBeforePassed:
		return "the task may start"
	case *events.RunBegun:
		return fmt.Sprintf("run %d begins", b.Run)
	case *events.DeadlinePassed:
		s := "the deadline " + b.Deadline.String() + " has passed"
		if b.Action == "undo" {
			return s + "; the task turns back"
		}
		return s + "; an alert is sent"
	case *events.SoftLimitPassed:
		what := "the task"
		if b.Step != "" {
			what = step(b.Step)
		}
		return what + " is not over " + events.Duration(b.SoftAt.Sub(b.Since)).String() + " (remind_after) after " + b.Since.String() + "; an alert is sent"
	case *events.TaskProcessed:
		return "the task is processed"
	case *events.TaskUndone:
		s := because("the task is undone", b.Reason)
		if len(b.Left) > 0 {
			s += "; an operator left what these did: " + steps(b.Left, 0)
		}
		return s
	case *events.TaskParked:
		return because("the task is parked and waits for an operator", b.Reason)
	case *events.TaskReminded:
		return because("the task has been parked since "+b.Since.String()+"; the alert is sent again", b.Reason)
	case *events.TimeCorrected:
		return "a clock was ahead; what began by that clock counts from " + b.To.String() + " instead"
	}
	return ""
}

func step(path string) string { return "step " + strconv.Quote(path) }

// steps names steps, the first few of many. more is how many there are beside them.
func steps(paths []string, more int) string {
	const most = 20
	named := paths[:min(len(paths), most)]
	list := make([]string, len(named), len(named)+1)
	for i, p := range named {
		list[i] = step(p)
	}
	if more += len(paths) - len(named); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

// attempt names an attempt from the second on.
func attempt(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", attempt %d", n)
}

// called says which attempt starts, of which run from the second on, and who makes it.
func called(n, run int, agent, function string) string {
	s := attempt(n)
	if run > 1 {
		s += fmt.Sprintf(", run %d", run)
	}
	return s + ", by agent " + strings.TrimSpace(agent+" "+function)
}

func ofSteps(body events.Body) string {
	switch b := body.(type) {
	case *events.StepQueued:
		return step(b.Step) + " is ready; its first attempt must start by " + b.StartBy.String()
	case *events.StepStarted:
		s := step(b.Step) + " starts" + called(b.Attempt, b.Run, b.Agent, b.Function) + ", to end by " + b.CompleteBy.String()
		if b.Heartbeat != 0 {
			s = step(b.Step) + " starts" + called(b.Attempt, b.Run, b.Agent, b.Function) + ", to show progress by " + b.CompleteBy.String()
		}
		if len(b.Progress) > 0 {
			s += "; it continues after the progress " + events.Clip(string(b.Progress), shownProgress)
		}
		return s
	case *events.StepProgressed:
		if len(b.Progress) == 0 {
			return step(b.Step) + " is alive, and must end or show progress by " + b.CompleteBy.String()
		}
		return step(b.Step) + " shows the progress " + events.Clip(string(b.Progress), shownProgress)
	case *events.WaitStarted:
		if len(b.Signals) == 0 {
			return step(b.Step) + " sleeps until " + b.Until.String()
		}
		s := step(b.Step) + " waits for the signal " + strings.Join(b.Signals, " or ")
		if b.Until != 0 {
			s += ", until " + b.Until.String()
		}
		return s
	case *events.FanOutStarted:
		return startsItems(b)
	case *events.StepCompleted:
		switch {
		case b.Request != "":
			return because(by(b.By)+" completed "+step(b.Step)+" by hand", b.Reason)
		case b.Signal != "":
			return because(step(b.Step)+" takes the signal", signalOf(b.Output))
		}
		return step(b.Step) + " is completed" + attempt(b.Attempt)
	case *events.StepSkipped:
		switch {
		case b.Left && b.Child != "":
			return because(by(b.By)+" skipped the undo of task "+strconv.Quote(b.Child)+", the child of "+step(b.Step)+", so what that task did stays", b.Reason)
		case b.Left:
			return because(by(b.By)+" skipped the undo of "+step(b.Step)+", so what the step did stays", b.Reason)
		case b.Why == events.SkipOperator:
			return because(by(b.By)+" skipped "+step(b.Step), b.Reason)
		case b.Why == events.SkipNeeds:
			return step(b.Step) + " is skipped, because a step that it needs was"
		}
		return because(step(b.Step)+" is skipped, because its condition is false", b.Condition)
	}
	return ""
}

// signalOf returns the name of the signal in the output of a wait.
func signalOf(output json.RawMessage) string {
	var o struct {
		Signal string `json:"signal"`
	}
	_ = json.Unmarshal(output, &o)
	return o.Signal
}

func ofFailures(body events.Body) string {
	switch b := body.(type) {
	case *events.StepFailed:
		if b.Request != "" {
			what := by(b.By) + " failed the attempt of " + step(b.Step)
			if b.Attempt == 0 {
				what = by(b.By) + " ended the wait of " + step(b.Step) + " for its next attempt"
			}
			return failed(what, b.Error, b.Verdict)
		}
		return failed(step(b.Step)+" failed"+attempt(b.Attempt), b.Error, b.Verdict)
	case *events.CompensationFailed:
		if b.Request != "" {
			what := by(b.By) + " failed the attempt to undo " + step(b.Step)
			if b.Attempt == 0 {
				what = by(b.By) + " ended the wait for the next attempt to undo " + step(b.Step)
			}
			return failed(what, b.Error, b.Verdict)
		}
		return failed("the undo of "+step(b.Step)+" failed"+attempt(b.Attempt), b.Error, b.Verdict)
	case *events.Timeout:
		what := step(b.Step)
		if b.Operation == events.Undo {
			what = "the undo of " + step(b.Step)
		}
		switch {
		case b.StartBy != 0:
			what += " could not start by " + b.StartBy.String()
		case b.Attempt == 0:
			what += " has waited for all its time"
		default:
			what += " had no result by " + b.CompleteBy.String() + attempt(b.Attempt)
		}
		return what + consequence(b.Verdict, b.Verdict.Reason)
	}
	return ""
}

// failed completes a sentence with an error and what follows from it. The supervisor's reason often quotes the error.
func failed(what string, e events.Error, v events.Verdict) string {
	if e.Code != "" {
		what += " (" + e.Code + ")"
	}
	if e.Message != "" && !strings.Contains(v.Reason, e.Message) {
		what += ": " + e.Message
	}
	return what + consequence(v, v.Reason)
}

func consequence(v events.Verdict, reason string) string {
	s := ""
	switch v.Action {
	case events.ActionRetry:
		if s = "retry at " + v.At.String(); v.At == 0 {
			s = "it is tried again"
		}
	case events.ActionCoolDown:
		s = "after a cool-down it starts again at " + v.At.String()
	case events.ActionUndo:
		s = "the task turns back"
	case events.ActionPark:
		s = "the task waits for an operator"
	case events.ActionContinue:
		s, reason = cmp.Or(reason, "the task goes on without it"), ""
	default:
		s = string(v.Action)
	}
	if s == "" {
		return ""
	}
	return because("; "+s, reason)
}

func ofUndos(body events.Body) string {
	switch b := body.(type) {
	case *events.CompensationStarted:
		return "the undo of " + step(b.Step) + " starts" + called(b.Attempt, b.Run, b.Agent, b.Function) + ", to end by " + b.CompleteBy.String()
	case *events.Compensated:
		if b.Request != "" {
			what := by(b.By) + " completed the undo of " + step(b.Step) + " by hand"
			if b.Child != "" {
				what = by(b.By) + " undid by hand what task " + strconv.Quote(b.Child) + ", the child of " + step(b.Step) + ", did"
			}
			return because(what, b.Reason)
		}
		if b.Left {
			return step(b.Step) + " is undone" + attempt(b.Attempt) + ", but an operator left what some steps of its child did"
		}
		return step(b.Step) + " is undone" + attempt(b.Attempt)
	}
	return ""
}

// by names who asked.
func by(name string) string { return cmp.Or(name, "an operator") }

func ofOperators(body events.Body) string {
	switch b := body.(type) {
	case *events.TaskReopened:
		s := by(b.By) + " retried the task"
		if len(b.Steps) > 0 {
			s = by(b.By) + " retried " + steps(b.Steps, 0)
		}
		return because(s+otherInput(b.With), b.Reason)
	case *events.TaskRerun:
		s := by(b.By) + " reran the task"
		if b.From != "" {
			s += " from " + step(b.From)
		}
		return because(s+otherInput(b.Input), b.Reason)
	case *events.CancelRequested:
		return because(by(b.By)+" cancelled the task", b.Reason)
	case *events.TaskPaused:
		return because(by(b.By)+" paused the task", b.Reason)
	case *events.TaskResumed:
		return because(by(b.By)+" resumed the task", b.Reason)
	case *events.TaskTerminated:
		s := because(by(b.By)+" terminated the task", b.Reason)
		if len(b.NotUndone) > 0 {
			s += "; not undone: " + steps(b.NotUndone, b.MoreNotUndone)
		}
		return s
	case *events.SignalReceived:
		if b.By == "" {
			return because("the signal "+b.Signal+" came"+payload(b.Payload), b.Reason)
		}
		return because(b.By+" sent the signal "+b.Signal+payload(b.Payload), b.Reason)
	case *events.RequestHeld:
		return "a request to " + string(b.Request.Kind) + " came before the task; it is kept until " + b.ExpiresAt.String()
	case *events.InputRejected:
		return because("what came for the task was rejected ("+b.Reason+")", b.Detail)
	case *events.EffectFailed:
		return because("what the engine sent for the task ("+b.Kind+") was refused", b.Error)
	case *events.RequestRefused:
		return because(by(b.By)+"'s request to "+string(b.Verb)+" was refused", b.Reason)
	}
	return ""
}

// shownPayload is the longest payload that a sentence quotes, in bytes.
const shownPayload = 100

func payload(raw json.RawMessage) string {
	switch {
	case len(raw) == 0:
		return ""
	case len(raw) > shownPayload:
		return fmt.Sprintf(" with a payload of %d bytes", len(raw))
	}
	return " with " + string(raw)
}

func otherInput(input json.RawMessage) string {
	if len(input) == 0 {
		return ""
	}
	return " with another input"
}

// ofPermits says what a fact about a permit means for the task, or for the step whose attempt needs it.
func ofPermits(body events.Body) string {
	switch b := body.(type) {
	case *events.PermitAsked:
		if b.Repeat {
			return holder(b.Link) + " still waits for a permit of " + limit(b.Limit)
		}
		return holder(b.Link) + " needs a permit of " + limit(b.Limit)
	case *events.PermitGranted:
		return holder(b.Link) + " has a permit of " + limit(b.Limit)
	case *events.PermitReleased:
		s := holder(b.Link) + " gave back its permit of " + limit(b.Limit)
		if b.QuietAt != 0 {
			s += "; nobody else gets it before " + b.QuietAt.String()
		}
		return s
	case *events.PermitReturned:
		return holder(b.Link) + " gave back a permit of " + limit(b.Limit) + " that it no longer needs"
	case *events.PermitBlocked:
		return "others wait for the task's permit of " + limit(b.Limit)
	}
	return ""
}

func holder(l events.Link) string {
	switch {
	case l.Operation == events.Undo:
		return "the undo of " + step(l.Path)
	case l.Path != "":
		return step(l.Path)
	}
	return "the task"
}

// limit returns the name of a limit as people know it.
func limit(name string) string {
	if key, ok := strings.CutPrefix(name, events.ConcurrencyPrefix); ok {
		return key
	}
	return strings.TrimPrefix(name, events.NamedPrefix)
}
