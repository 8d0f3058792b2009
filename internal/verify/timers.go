package verify

import "github.com/sagalog/sagalog/events"

// What falls due for a task as a whole: its deadline, and the alerts about it while it is parked.

func (t *telling) deadlinePassed(b *events.DeadlinePassed) {
	if b.Deadline != t.deadline || t.fact.Time < b.Deadline {
		t.wrong(CheckAttempts, "deadline", "", "its deadline %s passes at %s, but the task has the deadline %q", b.Deadline, t.fact.Time, t.deadline.String())
	}
	if t.expired {
		t.wrong(CheckAttempts, "deadline_again", "", "its deadline passes again, although nobody has reopened it since")
	}
	t.expired = true
	if b.Action == events.DeadlineUndo && t.paused {
		t.wrong(CheckAttempts, "deadline_of_paused", "", "its deadline undoes it although it is paused")
	}
	if b.Action == events.DeadlineUndo {
		t.turn("the deadline undoes the task")
	} else if !t.parked && !t.paused && t.pivot() == nil {
		t.wrong(CheckAttempts, "deadline_alerts", "", "its deadline passes and does not undo it, although it is neither parked nor paused nor past its pivot")
	}
}

// remindLater notes when the alert about the parked task is to be repeated.
func (t *telling) remindLater() {
	t.remindAt = 0
	if wait := t.partition.settings.remind; wait > 0 && t.reminders < events.MaxReminders {
		t.remindAt = t.fact.Time.Add(wait)
	}
}

func (t *telling) reminded(b *events.TaskReminded) {
	switch {
	case !t.parked || b.Since != t.parkedAt || b.Reminder != t.reminders+1:
		t.wrong(CheckAttempts, "reminder", "", "reminder %d says that it is parked since %s, but it is %s, was last parked at %q, and %d reminders came", b.Reminder, b.Since, t.state(), t.parkedAt.String(), t.reminders)
	case t.remindAt == 0 || t.fact.Time < t.remindAt:
		t.wrong(CheckAttempts, "reminder_early", "", "reminder %d comes at %s, but it is due at %q", b.Reminder, t.fact.Time, t.remindAt.String())
	}
	t.reminders = b.Reminder
	t.remindLater()
}
