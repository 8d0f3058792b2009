package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestItemsAreListed(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.Engine.BeginItems("x", 250)
	r := e.run("task", "get", "x")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "charge  waiting  125 of 250 items are done, 124 failed, 1 running")
	require.Contains(t, r.out, "charge[1] ")
	require.NotContains(t, r.out, "charge[2] ")
	require.NotContains(t, r.out, "charge[41] ", "only 20 items")
	require.Contains(t, r.out, "sagalog task items x charge --state")

	r = e.run("task", "items", "x", "charge", "--state", "failed", "--all", "--limit", "50", "-o", "jsonl")
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, 124, strings.Count(r.out, "\n"))
	r = e.run("task", "items", "x", "charge", "--limit", "2")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "charge[1]")
	require.Contains(t, r.err, "--cursor 1")
	r = e.run("task", "items", "x", "ship")
	require.Equal(t, 3, r.code, r.err)
}
