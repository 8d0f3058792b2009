package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

func TestListingTasksOfSeveralStates(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, id := range []string{"waits", "done", "stuck"} {
		e.submit(t, id)
	}
	e.Finish("done")
	e.Park("stuck", "no lamp")
	for args, want := range map[string]string{
		"--state parked": "stuck", "--state error": "stuck", "--state parked --state processed": "stuck done",
		"--state pending,processed": "done waits", "": "stuck done waits",
	} {
		r := e.run(append([]string{"task", "list", "-o", "jsonl"}, strings.Fields(args)...)...)
		require.Equal(t, 0, r.code, r.err)
		var ids []string
		for line := range strings.Lines(r.out) {
			var task api.TaskDocument
			require.NoError(t, json.Unmarshal([]byte(line), &task))
			ids = append(ids, task.ID)
		}
		require.Equal(t, want, strings.Join(ids, " "), args)
	}
}
