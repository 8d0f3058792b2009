package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// language is the programming language of a foreign program. The program's source is in testdata/foreign, and relies
// only on events/FORMAT.md.
type language struct {
	name string
	// needs names the machine's prerequisites. A skipped test prints it.
	needs string
	// murmur2 says whether the default partitioner of the language's client finds a task's home.
	murmur2 bool
	// version is a command that prints the versions that a build depends on.
	version []string
	// build makes the program runnable inside a directory, from a copy of its sources there.
	build func(ctx context.Context, dir string) error
	// command runs it.
	command func(dir string) []string
	// once ensures that this process builds the program only once.
	once func() (string, error)
}

var languages = []*language{
	{
		name: "python", needs: "python3 with venv, and the registry of Python packages",
		version: []string{"python3", "-c", "import sys, venv; print(sys.version, sys.prefix)"},
		build: func(ctx context.Context, dir string) error {
			if err := quietly(ctx, dir, "python3", "-m", "venv", "venv"); err != nil {
				return err
			}
			return quietly(ctx, dir, "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt")
		},
		command: func(dir string) []string {
			return []string{filepath.Join(dir, "venv", "bin", "python"), filepath.Join(dir, "shop.py")}
		},
	},
	{
		name: "java", needs: "a JDK from 17 on, mvn, and the registry of Maven", murmur2: true,
		version: []string{"javac", "-version"},
		build: func(ctx context.Context, dir string) error {
			return quietly(ctx, dir, "mvn", "-q", "-B", "process-classes")
		},
		command: func(dir string) []string {
			path := filepath.Join(dir, "target", "classes") + string(os.PathListSeparator) + filepath.Join(dir, "target", "dependency", "*")
			return []string{"java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-XX:TieredStopAtLevel=1", "-cp", path, "shop.Shop"}
		},
	},
}

func init() {
	for _, l := range languages {
		l.once = sync.OnceValues(l.prepare)
	}
}

// buildWait bounds the downloads of a first build.
const buildWait = 3 * time.Minute

// prepare builds the program in a directory that is kept for later runs. The directory's name is derived from the
// sources and tools of the build.
func (l *language) prepare() (string, error) {
	sources := os.DirFS(filepath.Join("testdata", "foreign", l.name))
	sum := sha256.New()
	version, err := exec.Command(l.version[0], l.version[1:]...).Output()
	if err != nil {
		return "", err
	}
	sum.Write(version)
	err = fs.WalkDir(sources, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sources, path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	})
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir() // XDG_CACHE_HOME, or ~/.cache
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "sagalog", "foreign", fmt.Sprintf("%s-%x", l.name, sum.Sum(nil)[:6]))
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	lock := flock.New(dir + ".lock") // another test run may be building it
	if err := lock.Lock(); err != nil {
		return "", err
	}
	defer lock.Close()
	built := filepath.Join(dir, "built")
	if _, err := os.Stat(built); err == nil {
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, sources); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildWait)
	defer cancel()
	if err := l.build(ctx, dir); err != nil {
		return "", err
	}
	return dir, os.WriteFile(built, nil, 0o600)
}

// quietly runs a command and shows its output only if it fails.
func quietly(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, bytes.TrimSpace(out))
	}
	return nil
}

// ready returns the path of the program. If the machine lacks what the program needs, the test is skipped, or
// fails if skipping is not allowed.
func (l *language) ready(t *testing.T) string {
	t.Helper()
	begun := time.Now()
	dir, err := l.once()
	if err != nil && os.Getenv(kafkatest.RealEnv) != "1" {
		t.Skipf("no program in %s: it needs %s; then: go test ./internal/e2e -v -run Foreign (%v)", l.name, l.needs, err)
	}
	require.NoError(t, err, "%s needs %s", l.name, l.needs)
	if took := time.Since(begun); took > 2*time.Second {
		t.Logf("waited %s until the program in %s was built, in %s", took.Round(time.Second), l.name, dir)
	}
	return dir
}

// said is a line that the program printed.
type said struct {
	Act, Form, Task, Outcome, Reason, Message, Topic, Behind string

	Facts                []string
	Forwarded, Untouched bool
	Partition            int32
	Offset, Later        int64
	Void                 int
}

// foreign is a running foreign program.
type foreign struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  *bufio.Scanner
	faults bytes.Buffer
	gone   bool
}

// run starts the program, which is killed at the end of the test.
func (l *language) run(t *testing.T, args ...string) *foreign {
	t.Helper()
	command := append(l.command(l.ready(t)), args...)
	f := &foreign{t: t, name: l.name + " " + args[0], cmd: exec.Command(command[0], command[1:]...)}
	f.cmd.Stderr = &f.faults
	var err error
	f.in, err = f.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := f.cmd.StdoutPipe()
	require.NoError(t, err)
	f.lines = bufio.NewScanner(out)
	f.lines.Buffer(nil, 1<<20)
	require.NoError(t, f.cmd.Start())
	t.Cleanup(f.kill)
	return f
}

// next returns the next line. The program itself bounds how long it waits.
func (f *foreign) next() (said, bool) {
	f.t.Helper()
	if !f.lines.Scan() {
		return said{}, false
	}
	var s said
	requireJSON(f.t, f.lines.Bytes(), &s)
	return s, true
}

// all waits until the program has ended successfully, and returns its lines grouped by their act.
func (f *foreign) all() map[string][]said {
	f.t.Helper()
	acts := map[string][]said{}
	for s, ok := f.next(); ok; s, ok = f.next() {
		acts[s.Act] = append(acts[s.Act], s)
	}
	require.Zero(f.t, f.wait(), "%s:\n%s", f.name, &f.faults)
	require.Len(f.t, acts["done"], 1)
	require.Zero(f.t, acts["done"][0].Void, "a fact was void, with one owner alive")
	return acts
}

// tell writes a line to the program.
func (f *foreign) tell(line string) {
	f.t.Helper()
	_, err := fmt.Fprintln(f.in, line)
	require.NoError(f.t, err)
}

// wait waits until the program ends by itself, and returns its exit code.
func (f *foreign) wait() int {
	f.t.Helper()
	for f.lines.Scan() { // the pipe must be empty before
		f.t.Logf("%s: %s", f.name, f.lines.Text())
	}
	f.gone = true
	_ = f.cmd.Wait()
	return f.cmd.ProcessState.ExitCode()
}

// kill is kill -9, and returns when the program is gone.
func (f *foreign) kill() {
	if f.gone {
		return
	}
	f.gone = true
	_ = f.cmd.Process.Kill()
	_ = f.cmd.Wait()
}
