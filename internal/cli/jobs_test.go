package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

// parked is an engine with three parked tasks and one that is pending.
func parked(t *testing.T, change ...func(*apitest.Engine)) *engine {
	t.Helper()
	e := setup(t)
	for _, c := range change {
		c(e.Engine)
	}
	for _, id := range []string{"a", "b", "c"} {
		e.submit(t, id)
		e.Park(id, "the bank is closed")
	}
	e.submit(t, "d")
	return e
}

func TestAVerbWithAFilterAsksAllThatMatch(t *testing.T) {
	t.Parallel()
	e := parked(t)
	retry := []string{"task", "retry", "--state", "parked", "-w", "order", "--reason", "it is open", "--by", "ada", "--yes", "--job-id", "j1", "--limit", "3", "--rate", "100/s"}
	r := e.run(retry...)
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.err, "3 error")
	require.Regexp(t, `JOB +STATE +GRANTED +REFUSED +LEFT\nj1 +done +3 +0 +0`, r.out)
	require.Len(t, e.Inputs(events.Reports), 3)
	require.Contains(t, string(e.Inputs(events.Reports)[0].Value), `"reason":"it is open","by":"ada"`)
	r = e.run(retry...)
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.err, "no task matches")
	require.Len(t, e.Inputs(events.Reports), 3)

	r = e.run("task", "pause", "--all", "--yes", "--limit", "3")
	require.Equal(t, 4, r.code)
	require.Contains(t, r.err, "4 tasks match, and the limit of the job is 3")
	r = e.run("task", "resume", "--all", "--yes", "--job-id", "j2")
	require.Equal(t, 4, r.code)
	require.Contains(t, r.err, "4 tasks refused; `sagalog job results j2 --result refused --all` lists them")
	require.Contains(t, r.err, "a: the task is not paused")
}

func TestAnEmptyFlagDoesNotWidenAFilter(t *testing.T) {
	t.Parallel()
	e := parked(t)
	for _, flag := range []string{"--workflow=", "--label=", "--until=", "--since="} {
		r := e.run("task", "cancel", "--state", "parked", flag, "--yes")
		require.Equal(t, 2, r.code, flag)
		require.Contains(t, r.err, "is empty: leave it out", flag)
	}
	r := e.run("task", "cancel", "-w", "order", "--state", "", "--yes")
	require.Equal(t, 2, r.code)
	require.Empty(t, e.Inputs(events.Reports))
}

func TestADryRunOfAVerbShowsWhatMatches(t *testing.T) {
	t.Parallel()
	e := parked(t)
	r := e.run("task", "signal", "go", "--all", "--dry-run")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `MATCHED +4\nBY STATE +3 error, 1 pending\n\nEXAMPLE +WORKFLOW +STATE +REASON\nd +order +pending\nc +order +error +the bank is closed\n`, r.out)
	r = e.run("task", "skip", "--state", "parked", "--step", "ship", "--result", "{}", "--dry-run", "-o", "json")
	require.Equal(t, 0, r.code, r.err)
	var c api.JobCount
	require.NoError(t, json.Unmarshal([]byte(r.out), &c))
	require.Equal(t, 3, c.Matched)
	require.Empty(t, e.Inputs(events.Reports))
	require.Equal(t, "there are no jobs\n", e.run("job", "list").err)
}

func TestIDsAndFiltersAreNeverMixed(t *testing.T) {
	t.Parallel()
	e := parked(t)
	for args, says := range map[string]string{
		"task retry":                                     "give the IDs of tasks, or a filter such as --state parked; --all is every task",
		"task retry a --state error":                     "give IDs or a filter, not both: --state is a filter",
		"task retry a --all":                             "give IDs or a filter, not both: --all is a filter",
		"task retry --all --workflow order":              "--all means every task, so it cannot be combined with --workflow",
		"task retry a --rate 1/s":                        "--rate needs a filter",
		"task retry --all --request-id k":                "--request-id is for tasks that are named by their IDs",
		"task retry --all --wait":                        "--wait is for tasks that are named by their IDs",
		"task retry --all":                               "there is no terminal to ask you first: give --yes",
		"task signal a":                                  "give the ID of a task and the name of a signal",
		"task signal --all":                              "give the name of the signal",
		"task signal a go --all":                         "give IDs or a filter, not both",
		"task skip --all --yes":                          "--step is missing",
		"task retry --state parkd --yes":                 "/filter/state: is not a state",
		"task retry --workflow order@2 --yes":            "the name is order",
		"task retry --state error --yes --rate fast":     "/rate: is not a rate such as 100/s",
		"task retry --state error --yes --job-id a/b":    "/id: \"a/b\" is not a valid ID",
		"task retry --state error --yes --since nowhere": "/filter/since: is neither an instant",
	} {
		r := e.run(strings.Fields(args)...)
		require.Equal(t, 2, r.code, args+": "+r.err)
		require.Contains(t, r.err, says, args)
	}
	require.Empty(t, e.Inputs(events.Reports))
}

func TestAVariableForListsChoosesNoTasks(t *testing.T) {
	e := parked(t)
	t.Setenv("SAGALOG_STATE", "parked")
	t.Setenv("SAGALOG_YES", "true")
	require.Equal(t, 2, e.run("task", "retry").code)
	require.Equal(t, 0, e.run("task", "cancel", "d").code)
	require.Len(t, e.Inputs(events.Reports), 1)
}

func TestAJobIsFollowedAndStopped(t *testing.T) {
	t.Parallel()
	e := parked(t, func(e *apitest.Engine) { e.JobsWait = true })
	r := e.run("task", "retry", "--state", "parked", "--yes", "--no-wait", "--job-id", "j")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.err, "`sagalog job get j --wait` follows it, `sagalog job stop j` stops it")
	require.Regexp(t, `STATE +running`, r.out)
	require.Regexp(t, `FILTER +\{"state":\["error"\]\}`, r.out)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r = runContext(ctx, "", "job", "get", "j", "--wait", "--api", e.url)
	require.Equal(t, 5, r.code)
	require.Contains(t, r.err, "stopped watching; the job goes on")

	require.Regexp(t, `j +retry +running +3 +0 +0 +3`, e.run("job", "list").out)
	e.WorkOnJobs()
	r = e.run("job", "get", "j", "--wait")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `j +done +3 +0 +0`, r.out)
	require.Equal(t, "TASK  RESULT   REASON\nc     granted\nb     granted\na     granted\n", e.run("job", "results", "j", "--result", "granted").out)
	require.Equal(t, 4, e.run("job", "stop", "j").code)
	require.Equal(t, 3, e.run("job", "get", "nope").code)

	require.Equal(t, 0, e.run("task", "cancel", "--all", "--yes", "--no-wait", "--job-id", "k").code)
	r = e.run("job", "stop", "k", "--by", "ada", "--reason", "wrong")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `STATE +stopped\nSTOPPED BY +ada`, r.out)
	r = e.run("job", "get", "k", "--wait")
	require.Equal(t, 6, r.code, "a script must not take it for done")
	require.Contains(t, r.err, "the job was stopped by ada when 4 tasks had not been asked")
}

// The tasks that stand for one reason are often not all that are parked.
func TestAVerbIsAskedOfTheTasksThatStandWithAnError(t *testing.T) {
	t.Parallel()
	e := parked(t)
	for id, code := range map[string]string{"a": "http_503", "b": "http_402"} {
		e.Change(id, &events.TaskParked{}, func(t *events.Task) {
			t.Schedule = "daily-" + id
			t.Steps = []*events.Step{{Path: "reserve", State: events.StepStateFailed, Error: &events.Error{Class: events.ClassPermanent, Code: code, Message: "no"}}}
		})
	}
	for flags, want := range map[string]string{
		"--failed-step reserve": "b a", "--failed-step reserve --error-code http_503": "a", "--error-code permanent": "", "--error-code timeout": "",
		"--schedule daily-a": "a", "--schedule other": "", "--failed-step ship": "", "--older-than 1h": "", "--older-than 0s --state parked": "c b a", "--older-than 2099-01-01T00:00:00Z": "d c b a",
	} {
		r := e.run(append([]string{"task", "list"}, strings.Fields(flags)...)...)
		require.Equal(t, 0, r.code, r.err)
		var ids []string
		for line := range strings.Lines(r.out) {
			if id, _, _ := strings.Cut(line, " "); id != "ID" && id != "No" {
				ids = append(ids, strings.TrimSpace(id))
			}
		}
		require.Equal(t, want, strings.Join(ids, " "), "%s: %s", flags, r.out)
	}
	require.Equal(t, 2, e.run("task", "list", "--older-than", "an hour").code)
	require.Equal(t, 2, e.run("task", "retry", "--older-than", "an hour", "--yes").code)
	r := e.run("task", "retry", "--failed-step", "reserve", "--error-code", "http_402", "--yes")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `done +1 +0`, r.out)
}

func TestSeveralTasksAreAskedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	e := parked(t)
	r := e.run("task", "pause", "a", "d")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `TASK +RESULT +STATE +REASON\na +granted +error\nd +granted +pending\n`, r.out)
	e.Finish("b")
	r = e.run("task", "pause", "b", "nope", "c", "a")
	require.Equal(t, 4, r.code)
	require.Regexp(t, `(?m)^b +refused`, r.out)
	require.Regexp(t, `(?m)^nope +refused`, r.out)
	require.Regexp(t, `(?m)^c +granted`, r.out)
	require.Regexp(t, `(?m)^a +refused +error +the task is paused already`, r.out)
	require.Contains(t, r.err, "3 of 4 tasks did not do what was asked")
	r = e.run("task", "resume", "a", "d", "--wait", "--timeout", "1ms", "-o", "jsonl")
	require.Equal(t, 6, r.code, "a is parked, and d still runs")
	require.Contains(t, r.out, `{"task":"a","result":"granted","state":"error","reason":"the bank is closed"}`)
	require.Contains(t, r.out, `{"task":"d","result":"granted","state":"pending"}`)
}
