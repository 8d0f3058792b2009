package events_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

func TestAMatchIsAboutStepsThatStandWithAnError(t *testing.T) {
	t.Parallel()
	busy, silent := &events.Error{Class: events.ClassRetryable, Code: "http_503"}, &events.Error{Class: events.ClassTimeout}
	task := &events.Task{UpdatedAt: 1000, Schedule: "daily", Parent: &events.Parent{ParentLink: events.ParentLink{Link: events.Link{Task: "p"}}}, Steps: []*events.Step{
		{Path: "reserve", Undo: &events.UndoState{Error: busy}}, {Path: "charge", Error: silent}, {Path: "ship"},
	}}
	for _, m := range []events.TaskMatch{
		{}, {Schedule: "daily", FailedStep: "charge"}, {FailedStep: "charge"}, {FailedStep: "reserve"}, {ErrorCode: "http_503"}, {ErrorCode: "timeout"}, {FailedStep: "charge", ErrorCode: "timeout"},
		{ChangedBy: 1000}, {Parent: "p"}, {FailedStep: "reserve", ErrorCode: "http_503", ChangedBy: 2000},
	} {
		require.True(t, m.Fits(task), "%+v", m)
	}
	for _, m := range []events.TaskMatch{
		{Schedule: "weekly"}, {Parent: "q"}, {FailedStep: "ship"}, {FailedStep: "other"}, {ErrorCode: "http_500"}, {FailedStep: "charge", ErrorCode: "http_503"}, {ChangedBy: 999},
		{FailedStep: "charge", ChangedBy: 999}, {ErrorCode: "retryable"}, // the code is its name
	} {
		require.False(t, m.Fits(task), "%+v", m)
	}
	require.False(t, events.TaskMatch{Parent: "p"}.Fits(&events.Task{}))
}

func TestOlderThanCountsFromTheOpeningOfAJob(t *testing.T) {
	t.Parallel()
	opened := events.At(time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC))
	f := events.JobFilter{State: []events.TaskState{events.TaskStateError}, OlderThan: "1h"}
	m, err := f.Match(opened)
	require.NoError(t, err)
	task := &events.Task{State: events.TaskStateError, UpdatedAt: opened.Add(-time.Hour)}
	require.True(t, f.Matches(task, m))
	task.UpdatedAt++
	require.False(t, f.Matches(task, m))
	task.UpdatedAt, task.State = 0, events.TaskStateUndone
	require.False(t, f.Matches(task, m))
	_, err = (&events.JobFilter{OlderThan: "an hour"}).Match(opened)
	require.Error(t, err)
	require.False(t, (&events.JobFilter{OlderThan: "1h"}).Empty())
	require.False(t, (&events.JobFilter{FailedStep: "x"}).Empty())
	require.False(t, (&events.JobFilter{ErrorCode: "x"}).Empty())
	require.False(t, (&events.JobFilter{Schedule: "x"}).Empty())
}
