package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// workDir returns a directory for data and logs, which is kept if the test fails.
func workDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e-data-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() || *keepFlag {
			t.Logf("data and logs are kept in %s", dir)
			return
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	return dir
}

// process is a program that a test started.
type process struct {
	t        *testing.T
	name     string
	cmd      *exec.Cmd
	out, err string
	// ended is closed when the program has ended.
	ended chan struct{}
}

// command is a program with its arguments and environment.
type command struct {
	name, dir string
	program   string
	args, env []string
	// silent leaves the log out of a failed test's output, for programs that are started hundreds of times.
	silent bool
}

// start runs a program whose output is appended to DIR/NAME.out and DIR/NAME.err.
func start(t *testing.T, c command) *process {
	t.Helper()
	p := &process{t: t, name: c.name, out: filepath.Join(c.dir, c.name+".out"), err: filepath.Join(c.dir, c.name+".err"), ended: make(chan struct{})}
	p.cmd = exec.Command(c.program, c.args...)
	p.cmd.Env = append(os.Environ(), c.env...)
	var files []*os.File
	for _, path := range []string{p.out, p.err} {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		files = append(files, f)
	}
	p.cmd.Stdout, p.cmd.Stderr = files[0], files[1]
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
		for _, f := range files {
			_ = f.Close()
		}
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() && !c.silent {
			t.Logf("the last of %s:\n%s", p.err, tail(p.err, 40))
		}
	})
	return p
}

// running says whether the program is still running.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill is kill -9, and returns when the program is gone. It does nothing if the program has already
// ended.
func (p *process) kill() {
	if p.running() {
		_ = p.cmd.Process.Kill()
	}
	<-p.ended
}

// interrupt sends Ctrl-C. It returns the exit code and how long the program took to end.
func (p *process) interrupt() (code int, took time.Duration) {
	p.t.Helper()
	begun := time.Now()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGINT))
	return p.wait(patience), time.Since(begun)
}

// wait returns the exit code.
func (p *process) wait(bound time.Duration) int {
	p.t.Helper()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		// Its goroutines show where it hangs.
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.ended
		require.FailNow(p.t, p.name+" did not end within "+bound.String(), tail(p.err, 200))
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) stdout() string { return read(p.t, p.out) }
func (p *process) stderr() string { return read(p.t, p.err) }

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func tail(path string, lines int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// output runs a program to its end.
func output(t *testing.T, program string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}
