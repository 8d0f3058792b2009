package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// A script that calls sagalog wrongly gets the same exit code whether the program or the engine notices.
func TestAWrongCallThatTheAPINoticesExits2(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.submit(t, "p")
	e.Park("p", "why")
	for args, says := range map[string]string{
		"task list --limit 5000":                              "limit: expected number <= 1000",
		"task list --state stuck":                             "state: is not a state; the states are pending, processing,",
		"task list --since yesterday":                         "since: is neither an instant",
		"task list --cursor x":                                "cursor: is not a cursor",
		"dlq list --limit 0":                                  "limit: expected number >= 1",
		"task retry p --step shop":                            "/step: is not a step of the task",
		"task cancel p --reason " + strings.Repeat("r", 2000): "/reason: is not a text",
		"task submit -w order --deadline soon --input {}":     "/deadline",
		"demo break dron":                                     "\"dron\" is not a service; did you mean \"drone\"?",
	} {
		r := e.run(strings.Fields(args)...)
		require.Equal(t, 2, r.code, "%s: %s", args, r.err)
		require.Contains(t, r.err, says, args)
	}
}

// The content of files and dead letters is not part of the call.
func TestDataThatTheAPIRefusesExits1(t *testing.T) {
	t.Parallel()
	e := setup(t)
	file := filepath.Join(t.TempDir(), "w.yaml")
	require.NoError(t, os.WriteFile(file, []byte("workflow: w\nunfit"), 0o600))
	r := e.run("workflow", "apply", file)
	require.Equal(t, 1, r.code, r.err)
	require.Contains(t, r.err, "steps/a: has no agent")
	e.Bury(events.Submissions, events.Record{Partition: 2, Key: []byte("z"), Value: []byte(`{"workflow":"order","input":{"item":5}}`)}, "invalid_input")
	r = e.run("dlq", "redrive", "submissions-2-0")
	require.Equal(t, 1, r.code, r.err)
	require.Contains(t, r.err, "/input/item: must be a text")
}
