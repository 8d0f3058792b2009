package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
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
