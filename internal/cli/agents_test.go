package cli_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/stretchr/testify/require"
)

func TestAnAgentIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := e.run("agents", "pause", "ghost", "--force", "--reason", "repair", "--by", "ada")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `ghost +paused +0`, r.out)
	require.Contains(t, r.err, "no live instance runs agent ghost: it will be paused when one starts")
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

// The workflow of the engine has a step at the agent post, which no instance runs.
func TestAnUnknownAgentIsNotPausedByMistake(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := e.run("agents", "pause", "stok")
	require.Equal(t, cli.ExitNotFound, r.code, r.err)
	require.Contains(t, r.err, `No agent with the name stok is known: no live instance runs it, and no step names it; did you mean "stock"?`)
	require.Contains(t, r.err, "`sagalog agents pause --force`")
	require.NotContains(t, e.run("agents", "list").err, "paused")
	r = e.run("agents", "pause", "post")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.err, "it will be paused when one starts")
	require.Equal(t, 0, e.run("agents", "resume", "post").code)
	r = e.run("agents", "resume", "stok")
	require.Equal(t, cli.ExitNotFound, r.code, r.err)
	require.Contains(t, r.err, "It is not paused.")
	e.SetSteps("hash-order-1", api.Step{ID: "pay", Agent: "bank-of-old"})
	_, _, err := e.Apply(t.Context(), api.Draft{Name: "order", Source: []byte(`{"workflow":"order","title":"new"}`)})
	require.NoError(t, err)
	r = e.run("agents", "pause", "bank-of-old")
	require.Equal(t, 0, r.code, "a step of an older version names it, whose tasks may still run: %s", r.err)
	e.Gone = []events.Missing{{Agent: "gone", Operation: events.Do}}
	require.Equal(t, 0, e.run("agents", "pause", "gone").code, "a step waits for it")
}
