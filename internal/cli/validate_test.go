package cli_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachKindOfFileIsValidatedByOneVerb(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"w.yaml": "workflow: pay\nsteps:\n  charge: {agent: payment}\n", "bad-w.yaml": "bad",
		"s.yaml": "schedule: daily\nworkflow: pay\ncron: \"0 6 * * *\"\n", "bad-s.yaml": "schedule: daily\nworkflow: pay\ncron: often\n",
		"l.yaml": "limit: bank\nmax: 20\n", "bad-l.yaml": "limit: bank\n\nmax: many\n",
		"a.yaml": "agent: bank\n", "bad-a.yaml": "bad",
	})
	for kind, name := range map[string]string{"workflow": "w", "schedule": "s", "limit": "l", "agent": "a"} {
		good, bad := filepath.Join(dir, name+".yaml"), filepath.Join(dir, "bad-"+name+".yaml")
		r := run(kind, "validate", good)
		require.Equal(t, 0, r.code, "%s: %s%s", kind, r.out, r.err)
		require.Equal(t, "valid: "+good+"\n", r.err)
		r = run(kind, "validate", good, bad)
		require.Equal(t, 1, r.code, kind)
		require.Contains(t, r.out, bad+":3:", "file and line")
		require.Contains(t, r.err, "1 fault")
		require.Contains(t, run(kind, "validate", bad, "-o", "json").out, `"line": 3`)
	}
	warned := filepath.Join(folder(t, map[string]string{"w.yaml": "odd"}), "w.yaml")
	r := run("workflow", "validate", warned)
	require.Equal(t, 0, r.code)
	require.Contains(t, r.out, "warning: ")
	require.Equal(t, "valid: "+warned+" (1 warning)\n", r.err)
	twice := run("agents", "validate", filepath.Join(dir, "a.yaml"), filepath.Join(dir, "a.yaml"))
	require.Equal(t, 1, twice.code)
	require.Contains(t, twice.out, `agent "bank" is bound in `)
}
