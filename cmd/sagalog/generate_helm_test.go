package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/deploy/helm"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Every variable in the chart's templates sets a flag of serve.
func TestTheChartSetsOnlyFlagsOfServe(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	serveCommand().Flags().VisitAll(func(f *pflag.Flag) { known[cli.Variable(f.Name)] = true })
	used := 0
	require.NoError(t, fs.WalkDir(helm.Chart(), "templates", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(helm.Chart(), name)
		for _, variable := range regexp.MustCompile(`SAGALOG_[A-Z][A-Z_]*`).FindAllString(string(text), -1) {
			require.True(t, known[variable], "%s sets %s, which is no flag of serve", name, variable)
			used++
		}
		return err
	}))
	require.Greater(t, used, 20)
}

// Every command of ours in the text about Kubernetes exists, with its flags.
func TestCommandsAboutKubernetesExist(t *testing.T) {
	t.Parallel()
	commands := 0
	for _, name := range []string{"docs/kubernetes.md", "deploy/helm/sagalog/README.md", "deploy/helm/sagalog/templates/NOTES.txt"} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		require.NoError(t, err)
		for _, line := range regexp.MustCompile("(?m)(?:^ *(?:\\./)?|`)sagalog ([a-z][^`\n#|]*)").FindAllStringSubmatch(string(text), -1) {
			words := strings.Fields(line[1])
			command, _, err := rootCommand().Find(words)
			require.NoError(t, err, "%s: %s", name, line[0])
			require.NotEqual(t, "sagalog", command.Name(), "%s: %s", name, line[0])
			for _, flag := range regexp.MustCompile(`--([a-z][a-z-]*)`).FindAllStringSubmatch(line[1], -1) {
				require.True(t, command.Flag(flag[1]) != nil || command.InheritedFlags().Lookup(flag[1]) != nil, "%s: %s has no --%s", name, command.CommandPath(), flag[1])
			}
			commands++
		}
	}
	require.Greater(t, commands, 5)
}

func TestGenerateHelmWritesTheChart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "chart")
	require.Equal(t, 0, run(t.Context(), []string{"generate", "helm", dir}))
	require.NoError(t, fs.WalkDir(helm.Chart(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		want, err := fs.ReadFile(helm.Chart(), name)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), name)
		return nil
	}))
	require.FileExists(t, filepath.Join(dir, "templates", "_helpers.tpl"))
	require.Equal(t, 1, run(t.Context(), []string{"generate", "helm", dir}), "an older chart is not mixed with this one")
}
