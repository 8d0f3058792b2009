package check_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// program is the program that the image would hold. Step helm of .ci/run builds it.
func program(t *testing.T) string {
	t.Helper()
	name := os.Getenv("SAGALOG")
	if name == "" {
		t.Skip("SAGALOG names no program; .ci/run helm builds it")
	}
	return name
}

// run runs the program with the environment of a pod and returns its exit code and what it printed.
func run(t *testing.T, env map[string]string, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t), args...)
	cmd.Dir, cmd.Env = t.TempDir(), []string{}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "%s", out)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(out)
	}
	require.NoError(t, err)
	return 0, string(out)
}

// The program accepts what the chart gives to it: all that is missing here are the files. Exit code 2 would be wrong usage, such as
// flags that exclude each other, or a node whose role needs another one.
func TestTheProgramAcceptsItsEnvironment(t *testing.T) {
	forEachWorkload(t, func(t *testing.T, w workload) {
		require.Equal(t, []string{"serve"}, w.container().Args)
		code, out := run(t, w.env(), w.container().Args...)
		require.Equal(t, 1, code, out)
		require.Contains(t, out, "/etc/sagalog/")
		require.Contains(t, out, "no such file or directory")
	})
}

// A ConfigMap is mounted as links into a hidden folder, which is exchanged as a whole. The program reads the files once each.
func TestTheProgramReadsMountedAgents(t *testing.T) {
	objects := objects(t, filepath.Join(chartDir, "ci", "agents.yaml"))
	for _, o := range objects {
		var m corev1.ConfigMap
		if o.kind != "ConfigMap" || !strings.Contains(o.name, "-agent-") {
			continue
		}
		require.NoError(t, yaml.Unmarshal(o.yaml, &m))
		dir := mountConfigMap(t, m.Data)
		env := map[string]string{"SAGALOG_BROKERS": "127.0.0.1:1", "SAGALOG_ROLES": "agent", "SAGALOG_NODE": "shop-0", "SAGALOG_AGENTS": dir, "SAGALOG_START_WITHIN": "100ms"}
		_, out := run(t, env, "serve")
		require.Contains(t, out, "PACKAGE_URL", "the file is read, and names the variable that is missing")
		env["PACKAGE_URL"] = "http://127.0.0.1:1"
		_, out = run(t, env, "serve")
		require.Contains(t, out, "127.0.0.1:1", "the agents are bound, and only the brokers are missing")
		require.NotContains(t, out, dir)
	}
}

func mountConfigMap(t *testing.T, data map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	const content, link = "..2026_11_27_12_00_00.1", "..data"
	require.NoError(t, os.Mkdir(filepath.Join(dir, content), 0o700))
	require.NoError(t, os.Symlink(content, filepath.Join(dir, link)))
	for name, text := range data {
		require.NoError(t, os.WriteFile(filepath.Join(dir, content, name), []byte(text), 0o600))
		require.NoError(t, os.Symlink(filepath.Join(link, name), filepath.Join(dir, name)))
	}
	return dir
}
