package events_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

const days = 8 * 24 * time.Hour

// wrongClock: a node whose clock is eight days ahead owns the partition for a while. The next one corrects the time, and all live tasks.
func (w *scribe) wrongClock() {
	const begun, tried, undone, again, beating = "delivery-9", "delivery-10", "delivery-11", "delivery-12", "delivery-19"
	w.submit(begun)
	w.start(begun, "account", 1)
	w.submit(beating)
	w.beat(beating, "account")
	right := w.now
	w.now = w.now.Add(days)
	w.claim("d1", w.epoch.ID)
	w.write(tried, &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Deadline: w.now.Add(600e9), Content: "c10", RemindAfter: 3600e9})
	w.start(tried, "account", 1)
	w.fail(tried, "account", 1, retryAt(w.now.Add(30e9)))
	w.start(begun, "package", 1)
	w.write(beating, &events.StepProgressed{Step: "account", Attempt: 1, CompleteBy: w.task(beating).Step("account").CapBy})
	w.beat(beating, "package")
	w.submit(undone)
	w.start(undone, "package", 1)
	w.complete(undone, "package", 1)
	w.start(undone, "drone", 1)
	w.write(undone, &events.Timeout{
		Step: "drone", Operation: events.Do, Attempt: 1, CompleteBy: w.task(undone).Step("drone").CompleteBy,
		QuietAt: w.now.Add(7e9), Verdict: undo("attempts used up"),
	})
	w.write(undone, &events.CompensationStarted{Step: "drone", Agent: "drone", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write(undone, &events.Timeout{Step: "drone", Operation: events.Undo, Attempt: 1, CompleteBy: w.now.Add(5e9), QuietAt: w.now.Add(7e9), Verdict: retryAt(w.now.Add(6e9))})
	w.write(undone, &events.CompensationStarted{Step: "drone", Agent: "drone", Attempt: 2, CompleteBy: w.now.Add(5e9)})
	w.submit(again)
	w.start(again, "account", 1)
	w.fail(again, "account", 1, park("attempts used up"))
	w.write(again, &events.TaskParked{Step: "account", Reason: "attempts used up"})
	w.write(again, &events.TaskReopened{Request: "q9", Steps: []string{"account"}})
	w.write("later", &events.RequestHeld{Request: events.Request{ID: "q8", Kind: events.RequestCancel, Task: "later"}, ExpiresAt: w.now.Add(600e9)})
	const delayed, dated = "early-5", "early-6"
	w.write(delayed, &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Deadline: w.now.Add(90e9) + w.step, NotBefore: w.now.Add(60e9) + w.step, Delay: events.Duration(60e9), Content: "c5", RemindAfter: 3600e9})
	w.write(dated, &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Deadline: w.now.Add(90e9), NotBefore: w.now.Add(60e9), Content: "c6", RemindAfter: 3600e9})
	family, ask := w.early()
	w.claim("d2", "d1")
	w.now = right.Add(time.Hour)
	to := w.now + w.step
	for _, task := range append([]string{"", again, begun, tried, undone, beating, delayed, dated}, family...) {
		w.write(task, &events.TimeCorrected{To: to})
	}
	ask()
	drone := w.task(undone).Step("drone")
	require.Equal(w.t, []events.Instant{to, to.Add(7 * time.Second)}, []events.Instant{drone.UndoQuietFrom, drone.UndoQuietAt})
	require.Equal(w.t, to.Add(60*time.Second), w.task(delayed).NotBefore)
	require.Equal(w.t, w.task(delayed).NotBefore.Add(30*time.Second), w.task(delayed).Deadline)
	require.Equal(w.t, w.task(dated).NotBefore.Add(30*time.Second), w.task(dated).Deadline)
	for _, task := range []string{delayed, dated} {
		require.Equal(w.t, w.task(task).NotBefore.Add(time.Hour), w.task(task).SoftAt)
	}
	require.Equal(w.t, to.Add(time.Hour), w.task(tried).SoftAt)
	require.Equal(w.t, to.Add(2*time.Hour), w.task(beating).Step("package").SoftAt)
	require.Equal(w.t, w.task(beating).Step("account").StartedAt.Add(2*time.Hour), w.task(beating).Step("account").SoftAt)
	w.hash1()
	w.write("", &events.TimeCorrected{To: to, Settled: true})
	w.hash1()
}

// beat starts an attempt with a heartbeat, which may take an hour.
func (w *scribe) beat(task, step string) {
	w.write(task, &events.StepStarted{Step: step, Agent: step, Attempt: 1, CompleteBy: w.now.Add(30e9), Heartbeat: events.Duration(30e9), CapBy: w.now.Add(3600e9), RemindAfter: 7200e9})
}

// An attempt that showed progress at the wrong time gets two heartbeats, and its cap stays unless it started at the wrong time too.
func TestACorrectedAttemptMustShowProgressSoon(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.write("", &events.SettingsAdopted{Settings: events.DefaultSettings()})
	w.wrongClock()
	to := w.task("delivery-19").UpdatedAt
	began, later := w.task("delivery-19").Step("account"), w.task("delivery-19").Step("package")
	require.Less(t, began.StartedAt, to)
	require.Equal(t, min(to.Add(60e9), began.CapBy), began.CompleteBy)
	require.LessOrEqual(t, began.CapBy.Sub(began.StartedAt), time.Hour+time.Second)
	require.Equal(t, to, began.ProgressedAt)
	require.Equal(t, to, later.StartedAt)
	require.Equal(t, to.Add(60e9), later.CompleteBy)
	require.InDelta(t, time.Hour, later.CapBy.Sub(to), float64(time.Second))
	require.Zero(t, later.ProgressedAt)
}

// Everything that began at the wrong time lasts for its whole duration from the correction on, and what began at the right time stays.
func TestACorrectedTaskKeepsItsDurations(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.write("", &events.SettingsAdopted{Settings: events.DefaultSettings()})
	w.submit("right")
	w.start("right", "account", 1)
	by := w.task("right").Step("account").CompleteBy
	w.wrongClock()
	p := &w.state.Partition
	require.Zero(t, p.Correcting)
	require.LessOrEqual(t, p.JumpedAt, p.Time)
	require.LessOrEqual(t, p.Since, p.Time)
	begin := w.task("delivery-9").UpdatedAt
	require.Less(t, p.Time.Sub(begin), time.Minute)

	require.Equal(t, by, w.task("right").Step("account").CompleteBy)
	begun := w.task("delivery-9")
	require.Less(t, begun.Step("account").CompleteBy, begin, "it had begun before")
	for _, s := range []*events.Step{begun.Step("package"), w.task("delivery-10").Step("account")} {
		require.Equal(t, begin, s.StartedAt)
		require.Equal(t, 29*time.Second, s.CompleteBy.Sub(begin))
	}
	tried := w.task("delivery-10")
	require.Less(t, tried.Step("account").RetryAt.Sub(begin), 31*time.Second)
	require.GreaterOrEqual(t, tried.Step("account").RetryAt.Sub(begin), 29*time.Second)
	require.Less(t, tried.Deadline.Sub(begin), 601*time.Second)
	require.GreaterOrEqual(t, tried.Deadline.Sub(begin), 599*time.Second)
	undone := w.task("delivery-11")
	require.Equal(t, 31*time.Second, undone.QuietAt.Sub(begin), "the complete-by time of an attempt, and the grace")
	require.Less(t, undone.Step("drone").Undo.CompleteBy.Sub(begin), 6*time.Second)
	require.Equal(t, begin, w.task("delivery-12").Step("account").RetryAt, "an operator let it start at once")
	require.Equal(t, 600*time.Second, w.state.HeldFor("later")[0].ExpiresAt.Sub(begin))
}

// A task was parked at the right time, and reminded of at the wrong one.
func TestAReminderFollowsWithinItsInterval(t *testing.T) {
	t.Parallel()
	const id = "t1"
	w := owned(t)
	s := events.DefaultSettings()
	w.write("", &events.SettingsAdopted{Settings: s})
	w.submit(id)
	w.start(id, "account", 1)
	w.fail(id, "account", 1, park("attempts used up"))
	w.write(id, &events.TaskParked{Step: "account", Reason: "attempts used up"})
	right := w.now
	w.now = w.now.Add(days)
	w.remind(id, 1)
	w.claim("x1", w.epoch.ID)
	w.now = right.Add(time.Hour)
	to := w.now + w.step
	w.write("", &events.TimeCorrected{To: to})
	w.write(id, &events.TimeCorrected{To: to})
	require.Equal(t, s.RemindAfter.Std(), w.task(id).RemindAt.Sub(to))
}

func TestTheTimeGoesBackOnlyByACorrection(t *testing.T) {
	t.Parallel()
	at := owned(t).now
	for name, try := range map[string]func(w *scribe){
		"a minute is no reason": func(w *scribe) {
			w.refused("", &events.TimeCorrected{To: w.state.Partition.Time.Add(-events.TimeCorrectable)})
		},
		"a task is corrected by itself":     func(w *scribe) { w.refused("t1", &events.TimeCorrected{To: at}) },
		"nothing is settled that has begun": func(w *scribe) { w.refused("", &events.TimeCorrected{To: at, Settled: true}) },
		"a correction that is not the first": func(w *scribe) {
			w.now = at.Add(-time.Hour)
			f := w.write("", &events.TimeCorrected{To: w.now + w.step})
			require.Equal(t, f.Time, w.state.Partition.Time)
			w.refused("", &events.TimeCorrected{To: f.Time.Add(-time.Hour)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := owned(t)
			w.submit("t1")
			w.start("t1", "account", 1)
			try(w)
		})
	}
}

// While the time was wrong, an operator reopened a task of the right time: its deadline has what was left of it when it was parked.
func TestAReopenedTaskHasTheRestOfItsDeadline(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.write("", &events.SettingsAdopted{Settings: events.DefaultSettings()})
	right := w.now
	w.write("t", &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Deadline: right.Add(time.Hour), Content: "c"})
	w.start("t", "account", 1)
	w.fail("t", "account", 1, park("attempts used up"))
	w.write("t", &events.TaskParked{Step: "account", Reason: "attempts used up"})
	rest := w.task("t").Deadline.Sub(w.task("t").ParkedAt)
	w.now = right.Add(days)
	w.claim("d1", w.epoch.ID)
	w.write("t", &events.TaskReopened{Request: "q9", Steps: []string{"account"}})
	w.claim("d2", "d1")
	w.now = right.Add(time.Minute)
	to := w.now + w.step
	w.write("", &events.TimeCorrected{To: to})
	w.write("t", &events.TimeCorrected{To: to})
	require.Equal(t, rest, w.task("t").Deadline.Sub(to))
}
