//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// exampleOfAgents returns the YAML block of docs/agents.md that begins with a line.
func exampleOfAgents(t *testing.T, begin string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/agents.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```yaml\n(" + regexp.QuoteMeta(begin) + "\n.*?)```").FindSubmatch(page)
	require.NotNil(t, block, "the page has no block that begins with %s", begin)
	return string(block[1])
}

// The command of docs/agents.md makes an archive, and its undo removes it when the next step cannot be done.
func TestTheCommandOfTheDocumentRunsAndIsUndone(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(at.dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(at.dir, name), []byte(text), 0o600))
	}
	write("a/archive.yaml", exampleOfAgents(t, "agent: archive"))
	write("a/send.yaml", "agent: send\nexec: {command: [sh, -c, 'test -e \"$0\" || { echo no receiver >&2; exit 1; }', \"${ input.to }\"], env: [PATH]}\n")
	write("w/backup.yaml", `
workflow: backup
defaults: {complete_within: 1m}
steps:
  archive: {agent: archive, with: {file: "${ input.file }", dir: "${ input.dir }"}, undo: {}}
  send: {needs: [archive], agent: send, with: {to: "${ input.to }"}, retry: {attempts: 1, then: undo}}
`)
	write("data/x", "x")
	p := at.start(t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2", "--workflows", "w", "--agents", "a")
	api := p.endpoints(filepath.Join(at.dir, "sagalog-data")).HTTP
	ended := func(id, to string) (got printed) {
		file := filepath.Join(at.dir, id+".tar")
		input, err := json.Marshal(map[string]string{"file": file, "dir": filepath.Join(at.dir, "data"), "to": to})
		require.NoError(t, err)
		s := at.run(t, "task", "submit", "--api", api, "-w", "backup", "--id", id, "--input", string(input), "--wait", "-o", "json")
		require.NoError(t, json.Unmarshal([]byte(s.out.String()), &got), s.err.String())
		return got
	}
	require.Equal(t, "processed", ended("good", at.dir).State)
	require.FileExists(t, filepath.Join(at.dir, "good.tar"))
	bad := ended("bad", "/nobody/there")
	require.Equal(t, "undone", bad.State)
	require.Contains(t, bad.Reason, "sh exited with 1: no receiver")
	require.NoFileExists(t, filepath.Join(at.dir, "bad.tar"))
	require.Equal(t, 0, p.stop())
}
