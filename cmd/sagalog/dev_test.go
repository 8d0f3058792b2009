package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDevReportsWhatSurvivesAPowerCut(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	for want, flags := range map[string][]string{
		"Durability  accepted tasks survive Ctrl-C and kill -9; a power cut may lose the most recent ones": nil,
		"Durability  accepted tasks survive Ctrl-C, kill -9 and a power cut":                               {"--fsync"},
	} {
		at := place{dir: t.TempDir()}
		p := at.start(t, append([]string{"dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2"}, flags...)...)
		p.endpoints(filepath.Join(at.dir, "sagalog-data"))
		require.Equal(t, 0, p.stop())
		require.Contains(t, p.out.String(), want)
	}
}

// A workflow that is applied stays. So a fault in any other file, of agents too, is found before.
func TestDevAppliesNothingIfAnyFileHasAFault(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(at.dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(at.dir, name), []byte(text), 0o600))
	}
	write("w/a.yaml", "workflow: good\nsteps:\n  one: {agent: a}\n")
	write("w/b.yaml", "workflow: bad\nsteps:\n  one: {agnt: a}\n")
	write("g/a.yaml", "agent: a\nhttp: {base: nowhere}\n")
	p := at.run(t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--workflows", "w", "--agents", "g")
	require.Equal(t, 1, p.code(), p.err.String())
	require.Contains(t, p.err.String(), "w/b.yaml:3:")
	require.Contains(t, p.err.String(), "g/a.yaml:2:")
	require.NoDirExists(t, filepath.Join(at.dir, "sagalog-data"))

	// An agent of the same name as one of the example is found after the example is open, and still before anything is applied.
	write("w/b.yaml", "workflow: better\nsteps:\n  one: {agent: a}\n")
	write("g/a.yaml", "agent: package\nhttp: {base: \"http://127.0.0.1:1\"}\ndo: {method: GET, path: /}\n")
	p = at.run(t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--workflows", "w", "--agents", "g")
	require.Equal(t, 1, p.code(), p.err.String())
	require.Contains(t, p.err.String(), "package")
	require.NoDirExists(t, filepath.Join(at.dir, "sagalog-data", "state"))
}

// Where the settings of a node are in the environment, an empty engine would take the tasks that were meant for that node.
func TestDevRefusesTheSettingsOfANode(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_BROKERS=k1:9092"}}
	p := at.run(t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none")
	require.Equal(t, 2, p.code(), p.err.String())
	require.Contains(t, p.err.String(), `SAGALOG_BROKERS is "k1:9092"`)
	require.Contains(t, p.err.String(), "`sagalog serve` starts a node")
	require.NoDirExists(t, filepath.Join(at.dir, "sagalog-data"))
}
