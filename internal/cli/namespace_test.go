package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettingsAreSetAndShown(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := e.run("namespace", "set", "remember_for=48h", "task_facts=20000", "--by", "anna")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `remember_for +48h +168h +20\S+Z +anna +1 `, r.out)
	require.Regexp(t, `task_facts +20000 +10000 +20\S+Z +anna +1 `, r.out)
	require.Regexp(t, `grace +2s +2s +how long`, r.out)
	again := e.run("namespace", "set", "remember_for=48h")
	require.Equal(t, 0, again.code)
	require.Contains(t, again.err, "nothing is changed")
	shown := e.run("namespace", "show")
	require.Equal(t, r.out, shown.out)
	require.Contains(t, e.run("namespace", "show", "-o", "json").out, `"value": "48h"`)
}

// A wrong call says what the setting takes, without an engine.
func TestSettingsThatCannotBeAreRefusedByName(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"remember_for":        "remember_for has no value: write remember_for=VALUE, a duration from 1s to 87600h, such as 168h",
		"remember_for=48":     "remember_for 48 is not possible: give a duration from 1s to 87600h, such as 168h",
		"payload_bytes=1MB":   "payload_bytes 1MB is not possible: give a number from 1 to 524288",
		"rememberfor=1h":      `"rememberfor" is not a setting; did you mean "remember_for"?`,
		"held_requests=-1":    "held_requests -1 is not possible: give a number from 0 to 1000000000",
		"remember_for=0.0001": "remember_for 0.0001 is not possible",
	} {
		r := run("namespace", "set", arg)
		require.Equal(t, 2, r.code, arg)
		require.Contains(t, r.err, want)
	}
}

func TestTheNamespaceIsUpgraded(t *testing.T) {
	t.Parallel()
	e := setup(t)
	shown := e.run("namespace", "show")
	require.Regexp(t, `(?s)\nlevel 1\n.*NODE +UNDERSTANDS\n *node-a +3\n *node-b +2\n`, shown.out)
	refused := e.run("namespace", "upgrade", "--to", "3")
	require.NotZero(t, refused.code)
	require.Contains(t, refused.err, `level 3 is not possible: node "node-b" understands level 2; upgrade that node first`)
	require.Equal(t, 2, e.run("namespace", "upgrade", "--to", "-1").code)
	r := e.run("namespace", "upgrade", "--by", "anna")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `\nlevel 2 since 20\S+Z \(raised by anna\)\n`, r.out)
	again := e.run("namespace", "upgrade")
	require.Equal(t, 0, again.code)
	require.Contains(t, again.err, "the namespace already has this level")
}
