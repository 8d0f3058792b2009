package main

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// The linker says nothing about a variable that does not exist.
func TestTheLinkerSetsVariablesThatExist(t *testing.T) {
	t.Parallel()
	variables := map[string]*string{"release": &release, "revision": &revision}
	for _, name := range []string{".goreleaser.yaml", "deploy/Dockerfile"} {
		set := regexp.MustCompile(`-X main\.(\w+)=`).FindAllStringSubmatch(document(t, name), -1)
		require.Len(t, set, len(variables), name)
		for _, s := range set {
			require.Contains(t, variables, s[1], name)
		}
	}
}

// The packages of a release show it to whoever installs them.
func TestTheMaintainerOfThePackagesIsNotInvented(t *testing.T) {
	t.Parallel()
	var release struct {
		Nfpms []struct{ Homepage, Maintainer string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(document(t, ".goreleaser.yaml")), &release))
	require.NotEmpty(t, release.Nfpms)
	for _, p := range release.Nfpms {
		require.NotContains(t, p.Maintainer, ".example", "nobody reads mail there")
		require.Contains(t, p.Maintainer, p.Homepage, "where the project is reached")
	}
}

// serveVariables returns the variables that set flags of serve, and those of the commands.
func serveVariables() map[string]bool {
	known := map[string]bool{cli.TokenVariable + "_FILE": true}
	serveCommand().Flags().VisitAll(func(f *pflag.Flag) { known[cli.Variable(f.Name)] = true })
	return known
}

var settingVariable = regexp.MustCompile(`SAGALOG_[A-Z][A-Z_]*`)

func TestTheUnitsSetOnlyFlagsOfServe(t *testing.T) {
	t.Parallel()
	known, used := serveVariables(), 0
	for _, name := range []string{"deploy/systemd/sagalog.service", "deploy/systemd/sagalog-agent@.service", "deploy/systemd/sagalog.env", "docs/systemd.md"} {
		for _, variable := range settingVariable.FindAllString(document(t, name), -1) {
			require.True(t, known[variable], "%s sets %s, which is no flag of serve", name, variable)
			used++
		}
	}
	require.Greater(t, used, 10)
}

// exposure is what systemd-analyze may find at most, in tenths: 14 with systemd 252. A service without any protection has 96.
const exposure = "20"

// Each unit is valid, alone and with each drop-in that docs/systemd.md shows.
func TestTheUnitsAreValid(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is missing: it comes with systemd")
	}
	dropIns := map[string][]string{}
	for _, block := range regexp.MustCompile("(?s)```ini\n# systemctl edit (\\S+)\n(.*?)```").FindAllStringSubmatch(document(t, "docs/systemd.md"), -1) {
		unit := regexp.MustCompile(`@.*`).ReplaceAllString(block[1], "@") + ".service"
		dropIns[unit] = append(dropIns[unit], block[2])
	}
	for _, unit := range []string{"sagalog.service", "sagalog-agent@.service"} {
		require.NotEmpty(t, dropIns[unit], unit)
		for _, dropIn := range append(dropIns[unit], "") {
			dir := t.TempDir()
			file := filepath.Join(dir, unit)
			text := strings.Replace(document(t, "deploy/systemd/"+unit), "ExecStart=/usr/bin/sagalog", "ExecStart=/bin/true", 1) // the program has to exist
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			require.NoError(t, os.Mkdir(file+".d", 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(file+".d", "override.conf"), []byte(dropIn), 0o600))
			for _, args := range [][]string{{"verify", "--man=no", file}, {"security", "--offline=true", "--threshold=" + exposure, "--no-pager", file}} {
				out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
				require.NoError(t, err, "systemd-analyze %s\n%s\n%s", args[0], dropIn, out)
				require.NotContains(t, string(out), "ignoring", dropIn)
			}
		}
	}
}

// The image is built from what Dockerfile.dockerignore lets through: every file of both programs must be among it.
func TestTheImageHasAllSources(t *testing.T) {
	t.Parallel()
	var with, without []string
	for _, line := range strings.Split(document(t, "deploy/Dockerfile.dockerignore"), "\n") {
		if kept, ok := strings.CutPrefix(line, "!"); ok {
			with = append(with, kept)
		} else if name, ok := strings.CutPrefix(line, "**/"); ok {
			without = append(without, name)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{$p := .}}{{if not .Standard}}{{range .GoFiles}}{{$p.Dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$p.Dir}}/{{.}}
{{end}}{{end}}`, "./cmd/sagalog", "./cmd/dronedelivery")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	require.NoError(t, err)
	root, err := filepath.Abs(cmd.Dir)
	require.NoError(t, err)
	files := 0
	for _, file := range strings.Fields(string(out)) {
		name, ours := strings.CutPrefix(file, root+"/")
		if !ours {
			continue
		}
		files++
		sent := false
		for _, w := range with {
			sent = sent || name == w || strings.HasPrefix(name, w+"/")
		}
		for _, part := range strings.Split(name, "/") {
			for _, w := range without {
				match, err := path.Match(w, part)
				require.NoError(t, err)
				sent = sent && !match
			}
		}
		require.True(t, sent, "%s is needed, but deploy/Dockerfile.dockerignore keeps it from the build", name)
	}
	require.Greater(t, files, 300)
}

// Compose starts our programs with commands, flags and variables that exist.
func TestComposeStartsCommandsThatExist(t *testing.T) {
	t.Parallel()
	var file struct {
		Services map[string]struct {
			Image       string
			Entrypoint  []string
			Command     []string
			Environment map[string]string
			Healthcheck struct{ Test []string }
			Volumes     []string
			DependsOn   map[string]any `yaml:"depends_on"`
		}
		Volumes map[string]any
	}
	require.NoError(t, yaml.Unmarshal([]byte(document(t, "compose.yaml")), &file))
	known, checked := serveVariables(), 0
	for name, s := range file.Services {
		for other := range s.DependsOn {
			require.Contains(t, file.Services, other, name)
		}
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			require.Contains(t, file.Volumes, volume, name)
		}
		if s.Image != "sagalog" || s.Entrypoint != nil {
			continue // programs of others, and the example
		}
		for variable := range s.Environment {
			require.True(t, known[variable] || !strings.HasPrefix(variable, "SAGALOG_"), "%s: %s", name, variable)
		}
		calls := [][]string{s.Command}
		if s.Healthcheck.Test != nil {
			require.Equal(t, []string{"CMD", "/sagalog"}, s.Healthcheck.Test[:2], name)
			calls = append(calls, s.Healthcheck.Test[2:])
		}
		for _, call := range calls {
			requireCommand(t, name, call)
			checked++
		}
	}
	require.GreaterOrEqual(t, checked, 6)
}

// requireCommand requires that a call names a command, its flags, and as many arguments as it takes.
func requireCommand(t *testing.T, where string, call []string) {
	t.Helper()
	command, rest, err := rootCommand().Find(call)
	require.NoError(t, err, where)
	require.True(t, command.Runnable(), "%s: %v", where, call)
	require.NoError(t, command.ParseFlags(rest), "%s: %v", where, call)
	require.NoError(t, command.ValidateArgs(command.Flags().Args()), "%s: %v", where, call)
}
