package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

// What show prints as YAML is the same content for apply: its hash is that of the definition.
func TestAWorkflowShownAsYAMLCanBeAppliedAgain(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/examples/workflows/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	texts := map[string]string{"odd": odd}
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		texts[file] = string(b)
	}
	for file, text := range texts {
		open := func(ref string) ([]byte, error) { return os.ReadFile(filepath.Join(filepath.Dir(file), ref)) }
		src, faults := scheduler.Parse(file, []byte(text), open)
		require.NotNil(t, src, faults)
		r := showYAML(t, src)
		require.Equal(t, 0, r.code, r.err)
		require.True(t, strings.HasPrefix(r.out, "# "+src.Workflow+", version 3, applied at "), r.out)
		again, faults := scheduler.Parse("again.yaml", []byte(r.out), nil)
		require.NotNil(t, again, "%s\n%s", faults, r.out)
		require.Equal(t, src.Hash, again.Hash, r.out)
	}
	r := showYAML(t, must(scheduler.Parse("odd", []byte(odd), nil)))
	require.Regexp(t, `(?s)\nworkflow: odd\ntitle: .*\ninput:\n.*\nsteps:\n  second:\n.*    needs: \[first\]\n.*  first:\n.*\noutput:\n`, r.out, "in the order in which people write")
	require.Equal(t, 2, run("task", "list", "-o", "yaml").code, "no other command has it")
}

// odd has texts that YAML would take for something else, and numbers that must keep their digits.
const odd = `{"workflow": "odd", "title": "yes", "input": {"type": "object", "properties": {"on": {"enum": ["1e3", "null", "true", "0x1F", "2026-01-01", " x ", "a: b # c", "two\nlines\n", "\u0007é\ud83d\ude00", ""]},
	"n": {"minimum": 1.50, "maximum": 123456789012345678901234567890, "multipleOf": 1e-7}}}, "output": {"x": null, "y": [[], {}, [1, "1"], false]},
	"steps": {"first": {"agent": "a", "undo": {}}, "second": {"agent": "b", "needs": ["first"], "if": "input.on == 'x'", "with": {"t": "- ${ input.on }"}}}}`

func must(src *scheduler.Source, _ []scheduler.Fault) *scheduler.Source { return src }

// showYAML runs show against an engine that has the definition as version 3, and lists its steps from the last one to the first.
func showYAML(t *testing.T, src *scheduler.Source) result {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(api.HeaderAPI, "v1")
		steps := []api.StepSummary{{ID: "second"}, {ID: "first"}}
		b, err := events.Marshal(api.WorkflowDocument{Name: src.Workflow, Version: 3, AppliedAt: 1_795_269_600_000, Steps: steps, Definition: src.Body})
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(w, "%s", b)
	}))
	t.Cleanup(s.Close)
	return run("workflow", "show", src.Workflow, "-o", "yaml", "--api", s.URL)
}
