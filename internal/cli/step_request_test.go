package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

func TestDecidingAboutAStep(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.submit(t, "p")
	e.Park("p", "why")
	e.Change("p", &events.StepFailed{}, func(t *events.Task) {
		t.Steps = []*events.Step{{Path: "ship", State: events.StepStateFailed, Attempt: 2}}
	})
	file := filepath.Join(t.TempDir(), "value")
	require.NoError(t, os.WriteFile(file, []byte(`{"id": 17}`), 0o600))
	last := func() string {
		list := e.Inputs(events.Reports)
		return string(list[len(list)-1].Value)
	}
	r := e.run("task", "skip", "p", "--step", "ship", "--result", "@"+file, "--request-id", "a", "--reason", "known")
	require.Equal(t, 0, r.code, r.err)
	require.JSONEq(t, `{"id":"a","kind":"skip","task":"p","step":"ship","operation":"do","output":{"id":17},"reason":"known"}`, last())
	r = e.run("task", "skip", "p", "--step", "ship", "--step", "pack")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "ship was given already: a request is about one step")
	r = e.run("task", "complete", "p", "--step", "ship", "--operation", "do", "--result", "[1]", "--request-id", "b")
	require.Equal(t, 0, r.code, r.err)
	require.JSONEq(t, `{"id":"b","kind":"complete","task":"p","step":"ship","operation":"do","output":[1]}`, last())
	r = e.run("task", "fail", "p", "--step", "ship", "--error", `{"code":"x"}`, "--effect", "none", "--request-id", "c")
	require.Equal(t, 4, r.code, r.err)
	require.Contains(t, r.err, "no attempt to do step")
	r = e.run("task", "retry", "p", "--step", "ship", "--with", `{"n":1}`, "--request-id", "d")
	require.Equal(t, 0, r.code, r.err)
	require.JSONEq(t, `{"id":"d","kind":"retry","task":"p","step":"ship","with":{"n":1}}`, last())
	require.Equal(t, 2, e.run("task", "skip", "p").code, "no step")
	require.Equal(t, 2, e.run("task", "skip", "p", "--step", "ship", "--result", "{").code)
	require.Equal(t, 1, e.run("task", "skip", "p", "--step", "ship", "--result", "@nowhere").code)
}

// An effect, a class or an operation that does not exist is a wrong call, named by its place, and no record is written.
func TestAFailThatCannotBeIsRefusedByPlace(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.submit(t, "p")
	before := len(e.Inputs(events.Reports))
	for member, place := range map[string]string{
		`"effect":"maybe"`:                `"/effect"`,
		`"effect":""`:                     `"/effect"`,
		`"error":{"class":"unknown"}`:     `"/error/class"`,
		`"error":{"class":"unavailable"}`: `"/error/class"`,
		`"operation":"redo"`:              `"/operation"`,
		`"operation":""`:                  `"/operation"`,
	} {
		status, text := ask(t, e.url+"/v1/tasks/p/fail", `{"step":"ship",`+member+`}`)
		require.Equal(t, 422, status, text)
		require.Contains(t, text, place)
	}
	require.Len(t, e.Inputs(events.Reports), before)
}

func TestAPayloadComesFromAFileOrTheStandardInput(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.submit(t, "p")
	file := filepath.Join(t.TempDir(), "payload")
	require.NoError(t, os.WriteFile(file, []byte(`{"by": "ada"}`), 0o600))
	for i, c := range []struct{ payload, want string }{{"@" + file, `{"by":"ada"}`}, {"-", `{"by":"bob"}`}, {`{"by":"eve"}`, `{"by":"eve"}`}} {
		id := fmt.Sprintf("s%d", i)
		r := e.pipe(`{"by": "bob"}`, "task", "signal", "p", "go", "--payload", c.payload, "--request-id", id)
		require.Equal(t, 0, r.code, r.err)
		list := e.Inputs(events.Reports)
		require.JSONEq(t, `{"id":"`+id+`","kind":"signal","task":"p","signal":"go","payload":`+c.want+`}`, string(list[len(list)-1].Value))
	}
	before := len(e.Inputs(events.Reports))
	require.Equal(t, 2, e.pipe("{", "task", "signal", "p", "go", "--payload", "-").code)
	r := e.run("task", "signal", "p", "go", "--payload", "@"+file+".not")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, file+".not")
	require.Len(t, e.Inputs(events.Reports), before, "nothing was sent")
}
