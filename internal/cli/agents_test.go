package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnAgentIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := e.run("agents", "pause", "ghost", "--reason", "repair", "--by", "ada")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `ghost +paused +0`, r.out)
	require.Contains(t, r.err, "no live instance runs agent ghost")
	r = e.run("agents", "list")
	require.Regexp(t, `agent ghost is paused since \S+ by ada: repair`, r.err)
	r = e.run("agent", "pause", "ghost")
	require.Equal(t, 0, r.code)
	require.Contains(t, r.err, "was so before")
	r = e.run("agents", "resume", "ghost")
	require.Regexp(t, `ghost +runs +0`, r.out)
	require.NotContains(t, e.run("agents", "list").err, "paused")
	r = e.run("agents", "pause", "No Name")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "is not a valid name")
}
