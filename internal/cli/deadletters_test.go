package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
)

// Dead letters are redriven and dismissed by their ID, or all that have a reason and that nobody has dealt with.
func TestDeadLettersAreDealtWithByTheirReason(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for i := range 12 {
		e.Bury(events.Submissions, events.Record{Partition: 0, Key: fmt.Appendf(nil, "k%d", i), Value: []byte(`{"workflow":"order","input":{"item":"x"}}`)}, "unknown_workflow")
	}
	e.Bury(events.Submissions, events.Record{Partition: 0, Key: []byte("odd"), Value: []byte(`{}`)}, "unreadable")
	r := e.run("dlq", "dismiss", "submissions-0-0", "--reason", "a test", "--by", "ada")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, e.run("dlq", "show", "submissions-0-0").out, "dismissed at")
	require.Contains(t, e.run("dlq", "show", "submissions-0-0").out, "by ada: a test")

	r = e.run("dlq", "redrive", "--rejected-for", "unknown_workflow")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "give --yes")
	r = e.run("dlq", "redrive", "--rejected-for", "unknown_workflow", "--yes")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `(?m)^submissions-0-3 +k3 `, r.out)
	require.Equal(t, 12, strings.Count(r.out, "\n"), "a line each, and their head: the dismissed one is not among them\n%s", r.out)
	require.Contains(t, r.err, "and 1 more")
	require.Contains(t, e.run("dlq", "list").out, "redriven as k3")

	r = e.run("dlq", "list", "--open", "-o", "jsonl")
	require.Equal(t, 1, strings.Count(r.out, "\n"), r.out)
	require.Contains(t, r.out, "unreadable")
	r = e.run("dlq", "redrive", "--all", "--yes")
	require.Equal(t, 1, r.code, "it would be rejected again")
	require.Contains(t, r.err, "submissions-0-12: ")
	r = e.run("dlq", "dismiss", "--all", "--yes")
	require.Equal(t, 0, r.code, r.err)
	r = e.run("dlq", "dismiss", "--all", "--yes")
	require.Equal(t, 0, r.code)
	require.Contains(t, r.err, "no open dead letter matches")
	r = e.run("dlq", "reopen", "submissions-0-12", "--reason", "a mistake")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, e.run("dlq", "list", "--open").out, "submissions-0-12")
	require.Equal(t, 0, e.run("dlq", "dismiss", "submissions-0-12").code)
	require.Equal(t, "no dead letter matches\n", e.run("dlq", "list", "--open").err)
	for args, want := range map[string]string{
		"dlq redrive": "give the IDs of dead letters", "dlq dismiss x --all": "not both", "dlq dismiss --all=false --yes": "give the IDs", "dlq dismiss --rejected-for= --yes": "--rejected-for is empty",
		"dlq dismiss --all --rejected-for=x": "cannot be combined",
	} {
		r := e.run(strings.Fields(args)...)
		require.Equal(t, 2, r.code)
		require.Contains(t, r.err, want)
	}
}

// Many dead letters with one fault are one error, and the last line says how many were sent.
func TestTheSameFaultOfManyDeadLettersIsSaidOnce(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for i := range 5 {
		e.Bury(events.Submissions, events.Record{Partition: 0, Key: fmt.Appendf(nil, "k%d", i), Value: []byte(`{}`)}, "unreadable")
	}
	r := e.run("dlq", "redrive", "--all", "--yes")
	require.NotEqual(t, 0, r.code)
	require.Equal(t, 1, strings.Count(r.err, " and 2 more: "), r.err)
	require.Contains(t, r.err, "0 of 5 dead letters sent again")
}

// A submission is dismissed with --sent-again if a task with its ID was accepted after it.
func TestDeadLettersThatWereSentAgainAreDismissed(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.Submit("before")
	for _, key := range []string{"again", "never", "before", "not an ID \x00", ""} {
		e.Bury(events.Submissions, events.Record{Partition: 0, Key: []byte(key), Value: []byte(`{}`)}, "unreadable")
	}
	e.Bury(events.Reports, events.Record{Partition: 0, Key: []byte("again"), Value: []byte(`{}`)}, "unreadable")
	for name, value := range map[string]string{events.HeaderType: "sagalog.signal", "content-type": "application/cloudevents+json"} {
		e.Bury(events.Submissions, events.Record{Partition: 0, Key: []byte("again"), Value: []byte(`{}`), Headers: []events.Header{{Key: name, Value: []byte(value)}}}, "unreadable")
	}
	e.Submit("again")
	r := e.run("dlq", "dismiss", "--sent-again", "--yes")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "submissions-0-0")
	require.Equal(t, 2, strings.Count(r.out, "\n"), "the head and one line\n%s", r.out)
	require.Equal(t, 7, strings.Count(e.run("dlq", "list", "--open", "-o", "jsonl").out, "\n"))
	require.Contains(t, e.run("dlq", "dismiss", "--sent-again", "--rejected-for", "unreadable", "--yes").err, "no open dead letter matches")
	require.Contains(t, e.run("dlq", "dismiss", "--sent-again", "submissions-0-0").err, "not both")
}

func TestATaskThatWasRejectedIsFoundByItsDeadLetter(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := e.run("task", "get", "typo")
	require.Equal(t, cli.ExitNotFound, r.code)
	require.Equal(t, "sagalog: No task with this ID is known.\n", r.err)
	e.Bury(events.Submissions, events.Record{Partition: 0, Key: []byte("typo"), Value: []byte(`{"workflow":"ordr"}`)}, "unknown_workflow")
	e.Bury(events.Submissions, events.Record{Partition: 0, Key: []byte("other"), Value: []byte(`{}`)}, "unreadable")
	for _, args := range [][]string{{"task", "get", "typo"}, {"task", "get", "typo", "--wait"}, {"task", "get", "typo", "-o", "json"}, {"task", "history", "typo"}, {"task", "watch", "typo"}} {
		r = e.run(args...)
		require.Equal(t, cli.ExitNotFound, r.code, r.err)
		require.Contains(t, r.err, "No task with this ID is known. But an input with this key was rejected as unknown_workflow")
		require.Contains(t, r.err, "`sagalog dlq show submissions-0-0` shows it")
	}
	r = e.run("dlq", "list", "--key", "typo")
	require.Contains(t, r.out, "submissions-0-0")
	require.NotContains(t, r.out, "unreadable")
	require.Contains(t, e.run("dlq", "list", "--key", "nobody").err, "no dead letter matches")
	e.run("dlq", "dismiss", "submissions-0-0")
	require.Contains(t, e.run("task", "get", "typo").err, "It is dismissed.")
	r = e.run("dlq", "redrive", "submissions-0-0", "-o", "json")
	require.Equal(t, cli.ExitNotFound, r.code, "it would be rejected again")
	e.Bury(events.Submissions, events.Record{Partition: 0, Key: []byte("good"), Value: []byte(`{"workflow":"order","input":{"item":"x"}}`)}, "unknown_workflow")
	require.Contains(t, e.run("dlq", "redrive", "submissions-0-2", "-o", "json").out, `"dead_letter": "submissions-0-2"`)
}
