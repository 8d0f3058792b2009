package events_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// remindEvery returns a partition whose alerts are repeated at that interval, with the parked task t.
func remindEvery(t *testing.T, every time.Duration) *scribe {
	w := owned(t)
	s := events.DefaultSettings()
	s.RemindAfter = events.Duration(every)
	w.write("", &events.SettingsAdopted{Settings: s})
	w.submit("t")
	w.start("t", "a", 1)
	w.fail("t", "a", 1, park("refused"))
	w.write("t", &events.TaskParked{Step: "a", Reason: "refused"})
	return w
}

func TestAParkedTaskHasTenRemindersAndNoMore(t *testing.T) {
	t.Parallel()
	w := remindEvery(t, time.Hour)
	parkedAt := w.task("t").ParkedAt
	require.Equal(t, w.task("t").UpdatedAt, parkedAt)
	for n := range events.MaxReminders {
		require.Equal(t, []events.Timer{{Due: w.task("t").UpdatedAt.Add(time.Hour), Kind: events.TimerReminder}}, w.task("t").Timers())
		w.remind("t", n+1)
	}
	require.Empty(t, w.task("t").Timers())
	require.Equal(t, parkedAt, w.task("t").ParkedAt)
	w.refused("t", &events.TaskReminded{Reminder: events.MaxReminders})
}

func TestARemindAfterOfZeroRemindsNobody(t *testing.T) {
	t.Parallel()
	require.Empty(t, remindEvery(t, 0).task("t").Timers())
}

func TestATaskThatIsNotParkedHasNoReminders(t *testing.T) {
	t.Parallel()
	for _, b := range []events.Body{
		&events.TaskReopened{Request: "q", Steps: []string{"a"}}, &events.CancelRequested{Request: "q"},
		&events.DeadlinePassed{Action: events.DeadlineUndo},
	} {
		w := remindEvery(t, time.Hour)
		w.remind("t", 1)
		w.write("t", b)
		task := w.task("t")
		require.Zero(t, task.ParkedAt, b.Name())
		require.Zero(t, task.Reminders, b.Name())
		require.Zero(t, task.RemindAt, b.Name())
		w.refused("t", &events.TaskReminded{Reminder: 1})
	}
}
