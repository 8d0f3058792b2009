package main

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// A cloned repository may hold links to the secrets of whoever applies its workflow, and the engine shows what was applied.
func TestARefReadsNothingOutsideItsFolder(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret.yaml")
	require.NoError(t, os.WriteFile(secret, []byte("token: open-sesame"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "schema.yaml"), []byte("type: object"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large.yaml"), make([]byte, api.DefaultDefinitionBytes+1), 0o600))
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "file.yaml")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "folder")))
	require.NoError(t, os.Symlink("schema.yaml", filepath.Join(dir, "within.yaml")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600))

	for _, ref := range []string{"schema.yaml", "within.yaml"} { // Kubernetes links the files of a ConfigMap so
		b, err := openBeside(beneath(dir), ref)
		require.NoError(t, err)
		require.Equal(t, "type: object", string(b))
	}
	for ref, says := range map[string]string{
		"file.yaml": "escapes", "folder/secret.yaml": "escapes", "../secret.yaml": "not at or below", "pipe.yaml": "not a regular file",
		"large.yaml": "the limit is",
	} {
		b, err := openBeside(beneath(dir), ref)
		require.ErrorContains(t, err, says, ref)
		require.Empty(t, b, ref)
	}
	source := []byte("workflow: w\ninput: {$ref: file.yaml}\nsteps:\n  a: {agent: a}\n")
	_, faults := loadDefinition(filepath.Join(dir, "workflow.yaml"), source)
	require.NotEmpty(t, faults)
	require.NotContains(t, faults[0].Message, "open-sesame")
}

func TestTheFlagPrintsWhatTheCommandVersionPrints(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	command := place{}.run(t, "version")
	require.Zero(t, command.code(), command.err.String())
	require.Contains(t, command.out.String(), "sagalog ")
	flag := place{}.run(t, "--version")
	require.Zero(t, flag.code(), flag.err.String())
	require.Equal(t, command.out.String(), flag.out.String())
}

func TestTheMetricsNameTheProgram(t *testing.T) {
	t.Parallel()
	families, err := newProcess(true).metrics.Gather()
	require.NoError(t, err)
	labels := map[string]string{}
	for _, f := range families {
		if f.GetName() == "sagalog_build_info" {
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
		}
	}
	require.Equal(t, map[string]string{"version": version(), "commit": commit(), "go_version": runtime.Version()}, labels)
}
