package supervisor

import (
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// alerting are the kinds of facts of which some or all raise an alert.
var alerting = map[events.Name]bool{
	events.NameTaskParked: true, events.NameTaskReminded: true, events.NameTaskUndone: true, events.NamePermitBlocked: true, events.NameSoftLimitPassed: true,
	events.NameDeadlinePassed: true, events.NameStepFailed: true, events.NameEffectFailed: true, events.NameSchedulePassed: true, events.NameScheduleTaskEnded: true,
}

// RaisesAlerts says whether a fact of that kind may raise an alert. Readers use it to skip other facts without decoding them.
func RaisesAlerts(kind events.Name) bool { return alerting[kind] }

// AlertOf returns the alert that an accepted fact raises, without Of and without the name of the workflow, which only the state knows.
func AlertOf(f *events.Fact) (a Alert, raised bool) {
	if !alerting[f.Body.Name()] {
		return a, false
	}
	switch b := f.Body.(type) {
	case *events.EffectFailed:
		if b.Kind != events.EffectAlert && b.Kind != events.EffectReply { // a refused alert does not raise another alert, nor do a day's replies one each
			a = Alert{Kind: AlertEffect, Reason: b.Kind + ": " + b.Error}
		}
	case *events.TaskParked:
		a = Alert{Kind: AlertParked, Step: b.Step, Reason: b.Reason}
	case *events.TaskReminded:
		a = Alert{Kind: AlertParked, Reason: b.Reason, Reminder: b.Reminder, Since: b.Since}
	case *events.TaskUndone:
		if b.Answers == nil { // otherwise its parent raises the alerts
			a = Alert{Kind: AlertUndone, Reason: b.Reason}
		}
	case *events.PermitBlocked:
		a = blockedAlert(b)
	case *events.SchedulePassed:
		a = passedAlert(b)
	case *events.ScheduleTaskEnded:
		if b.State == events.EndRejected { // the task never began
			a = Alert{Kind: AlertScheduleFailed, Schedule: b.Schedule, Reason: fmt.Sprintf("the submission of task %s was rejected: %s", b.Task, b.Reason)}
		}
	case *events.SoftLimitPassed:
		a = Alert{Kind: AlertSoftLimit, Step: b.Step, Since: b.Since, Reason: "not over " + events.Duration(b.SoftAt.Sub(b.Since)).String() + " after it began (remind_after of its workflow)"}
	case *events.DeadlinePassed:
		a = Alert{Kind: AlertDeadline, Reason: "the deadline " + b.Deadline.String() + " passed; " + b.Action}
	case *events.StepFailed:
		if b.Error.Class == events.ClassPermanent && b.Verdict.Action != events.ActionContinue { // otherwise it is tolerated
			a = Alert{Kind: AlertPermanent, Step: b.Step, Reason: b.Error.Message}
		}
	}
	a.Task, a.Time = f.Task, f.Time
	return a, a.Kind != ""
}

// blockedAlert says that others wait for the permit of a parked task.
func blockedAlert(b *events.PermitBlocked) Alert {
	name := strings.TrimPrefix(b.Limit, events.ConcurrencyPrefix)
	return Alert{
		Kind: AlertBlocked, Limit: name, Since: b.Since,
		Reason: fmt.Sprintf("tasks that wait for the permit of this parked task: %d; retry, cancel or terminate it", b.Waiting),
	}
}

// passedAlert says that a schedule passed over due times, if somebody should look; otherwise it has no kind.
func passedAlert(b *events.SchedulePassed) Alert {
	a := Alert{Schedule: b.Schedule}
	switch {
	case b.Why == events.PassedMissed:
		a.Kind, a.Reason = AlertScheduleMissed, fmt.Sprintf("%d due times from %s on are older than catch_up", b.Count, b.Due)
	case b.Why == events.PassedFailed:
		a.Kind, a.Reason = AlertScheduleFailed, fmt.Sprintf("the task that is due %s cannot be submitted: %s", b.Due, b.Reason)
	case b.Why == events.PassedOverlap && b.InRow == events.ScheduleBlockedAfter:
		a.Kind, a.Reason = AlertScheduleBlocked, fmt.Sprintf("%d due times in a row were passed over, because a task has not ended", b.InRow)
	}
	return a
}
