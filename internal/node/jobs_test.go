package node_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// open opens a job.
func (w *world) openJob(p *process, job events.Job) {
	w.t.Helper()
	_, opened, err := p.Jobs().OpenJob(w.t.Context(), job)
	require.NoError(w.t, err)
	require.True(w.t, opened)
}

// job returns a job as a node knows it.
func (w *world) job(p *process, id string) api.Job {
	w.t.Helper()
	all, err := p.Jobs().Jobs(w.t.Context())
	require.NoError(w.t, err)
	require.Contains(w.t, all, id)
	return all[id]
}

// jobEnded waits until a job has ended, and returns it with the time that it took.
func (w *world) jobEnded(p *process, id string) (api.Job, time.Duration) {
	w.t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; <-time.After(100 * time.Millisecond) {
		if j := w.job(p, id); j.EndedAt != 0 {
			return j, j.EndedAt.Time().Sub(j.OpenedAt.Time())
		}
	}
	w.t.Fatalf("job %s has not ended: %+v", id, w.job(p, id))
	return api.Job{}, 0
}

// waiting submits tasks that nobody works on, and waits until a node's store has them.
func (w *world) waiting(p *process, list ...string) {
	w.t.Helper()
	w.submit(list...)
	for _, id := range list {
		w.watch.state(id, events.TaskStatePending)
	}
	<-time.After(time.Second)
}

// granted counts the facts of each task that grant a request.
func (w *world) granted(name events.Name) map[string]int {
	count := map[string]int{}
	for _, s := range w.watch.log() {
		if s.fate == events.FateAccepted && s.fact.Body.Name() == name {
			count[s.fact.Task]++
		}
	}
	return count
}

var everyTask = events.JobFilter{All: true}

func TestAJobAsksTheTasksOfAllPartitions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		n := w.node(t.TempDir())
		w.apply(n, order)
		tasks := ids("t", 700) // more than a block
		w.waiting(n, tasks...)
		pause := events.Job{ID: "p1", Verb: events.RequestPause, Filter: events.JobFilter{State: []events.TaskState{events.TaskStatePending}}, Reason: "why", By: "ada"}
		w.openJob(n, pause)
		w.waiting(n, "later")
		j, _ := w.jobEnded(n, "p1")
		require.Equal(t, []int{700, 0}, []int{j.Granted, j.Refused})
		facts := w.granted(events.NameTaskPaused)
		require.Len(t, facts, 700)
		require.NotContains(t, facts, "later", "it was submitted after the job was opened")
		task, err := n.Tasks().Task(t.Context(), "t-0001")
		require.NoError(t, err)
		require.Equal(t, []string{"ada", "why"}, []string{task.Paused.By, task.Paused.Reason})

		_, opened, err := n.Jobs().OpenJob(t.Context(), pause)
		require.NoError(t, err)
		require.False(t, opened)
		_, _, err = n.Jobs().OpenJob(t.Context(), events.Job{ID: "p1", Verb: events.RequestResume, Filter: everyTask})
		require.ErrorIs(t, err, api.ErrOtherJob)

		pause.ID = "p2"
		w.openJob(n, pause)
		j, _ = w.jobEnded(n, "p2")
		require.Equal(t, []int{1, 700}, []int{j.Granted, j.Refused})
		require.Len(t, j.Refusals, 4*events.MaxJobRefusals)
		require.Contains(t, j.Refusals[0].Reason, "the task is paused already")

		w.openJob(n, events.Job{ID: "p3", Verb: events.RequestResume, Filter: events.JobFilter{FailedStep: "reserve"}})
		j, _ = w.jobEnded(n, "p3")
		require.Equal(t, []int{0, 0}, []int{j.Granted, j.Refused}, "no step has failed")
		page, err := n.Lists().List(t.Context(), api.Query{Limit: 1000, Match: events.TaskMatch{ErrorCode: "timeout"}})
		require.NoError(t, err)
		require.Empty(t, page.Tasks)
	})
}

// A job cancels tasks that it would no longer find, since they are undone. The node dies while it works, again and again.
func TestAJobAsksEachTaskOnceWhateverDies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		others := ids("o", 300)
		w.waiting(n, others...)
		for _, id := range others {
			w.request(events.RequestCancel, id, "q")
		}
		w.watch.ended(others...)
		tasks := ids("t", 100)
		w.waiting(n, append(tasks, "o-last")...)
		w.openJob(n, events.Job{ID: "c", Verb: events.RequestCancel, Filter: events.JobFilter{State: []events.TaskState{events.TaskStatePending}}, Rate: "10/s"})
		for range 3 {
			<-time.After(1500 * time.Millisecond)
			n.kill()
			n = w.node(dir)
		}
		j, took := w.jobEnded(n, "c")
		require.Equal(t, []int{101, 0}, []int{j.Granted, j.Refused})
		require.Less(t, took, 45*time.Second, "the rate does not count tasks that are not asked")
		facts := w.granted(events.NameCancelRequested)
		for _, id := range tasks {
			require.Equal(t, 1, facts[id], id)
		}
	})
}

func TestAnotherNodeContinuesAJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		one, two := w.node(t.TempDir(), together), w.node(t.TempDir(), together)
		w.apply(one, order)
		w.shared("node-1", "node-2")
		tasks := ids("t", 100)
		w.waiting(one, tasks...)
		w.openJob(one, events.Job{ID: "c", Verb: events.RequestCancel, Filter: events.JobFilter{State: []events.TaskState{events.TaskStatePending}}, Rate: "10/s"})
		<-time.After(4 * time.Second)
		before := len(w.granted(events.NameCancelRequested))
		require.Positive(t, before)
		require.Less(t, before, 60)
		one.kill()
		j, _ := w.jobEnded(two, "c")
		require.Equal(t, []int{100, 0}, []int{j.Granted, j.Refused})
		facts := w.granted(events.NameCancelRequested)
		for _, id := range tasks {
			require.Equal(t, 1, facts[id], id)
		}
	})
}

func TestAJobKeepsToItsRateAndStops(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		n := w.node(t.TempDir())
		w.apply(n, order)
		w.waiting(n, ids("t", 60)...)
		w.openJob(n, events.Job{ID: "p", Verb: events.RequestPause, Filter: everyTask, Rate: "10/s"})
		for i := range 3 {
			<-time.After(time.Second)
			require.LessOrEqual(t, len(w.granted(events.NameTaskPaused)), 10*(i+1)+1)
		}
		j, took := w.jobEnded(n, "p")
		require.Equal(t, 60, j.Granted)
		require.GreaterOrEqual(t, took, 6*time.Second)
		require.Less(t, took, 12*time.Second, "partitions that are done leave their share to the others")

		w.openJob(n, events.Job{ID: "r", Verb: events.RequestResume, Filter: everyTask, Rate: "60/h"})
		<-time.After(10 * time.Minute)
		_, changed, err := n.Jobs().StopJob(t.Context(), events.JobStop{Job: "r", By: "ada"})
		require.NoError(t, err)
		require.True(t, changed)
		j, _ = w.jobEnded(n, "r")
		require.Equal(t, "ada", j.Stop.By)
		require.InDelta(t, 10, j.Granted, 4)
		require.Len(t, w.granted(events.NameTaskResumed), j.Granted)
		_, changed, err = n.Jobs().StopJob(t.Context(), events.JobStop{Job: "r"})
		require.NoError(t, err)
		require.False(t, changed)
		_, _, err = n.Jobs().StopJob(t.Context(), events.JobStop{Job: "x"})
		require.ErrorIs(t, err, api.ErrNoJob)
	})
}

// A task is cancelled and forgotten between the list of the job and its turn, and its ID is used again. Another one no longer matches then.
func TestAJobDoesNotAskWhatFollowedItsList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir(), remembers(10*time.Second))
		w.apply(n, order)
		w.waiting(n, "again", "first")
		w.openJob(n, events.Job{ID: "c", Verb: events.RequestCancel, Filter: events.JobFilter{State: []events.TaskState{events.TaskStatePending}}, Rate: "60/h"})
		<-time.After(5 * time.Second)
		w.request(events.RequestCancel, "again", "q")
		w.watch.ended("again")
		<-time.After(40 * time.Second)
		task, err := n.Tasks().Task(t.Context(), "again")
		require.NoError(t, err)
		require.Nil(t, task, "it is forgotten")
		w.waiting(n, "again")
		j, _ := w.jobEnded(n, "c")
		require.Equal(t, []int{1, 0}, []int{j.Granted, j.Refused})
		require.Equal(t, map[string]int{"again": 1, "first": 1}, w.granted(events.NameCancelRequested))
	})
}

// A job asks tasks that have ended, and says that they refused.
func TestAJobCountsTheRefusalsOfEndedTasks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, n, _ := ready(t, nil)
		tasks := ids("t", 30)
		w.submit(tasks...)
		w.watch.ended(tasks...)
		<-time.After(time.Second)
		w.openJob(n, events.Job{ID: "r", Verb: events.RequestRetry, Filter: everyTask})
		j, _ := w.jobEnded(n, "r")
		require.Equal(t, []int{0, 30}, []int{j.Granted, j.Refused})
		require.Contains(t, j.Refusals[0].Reason, "the task has ended")
	})
}

func TestOpenJobsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, order)
		w.waiting(n, ids("t", 3)...)
		var err error
		opened := 0
		for ; err == nil; opened++ {
			_, _, err = n.Jobs().OpenJob(t.Context(), events.Job{ID: ids("j", 30)[opened], Verb: events.RequestPause, Filter: everyTask, Rate: "1/h"})
		}
		require.ErrorIs(t, err, api.ErrTooManyJobs)
		require.Equal(t, 21, opened)
	})
}
