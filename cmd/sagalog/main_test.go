package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent/execagent"
	"github.com/stretchr/testify/require"
)

// The tests run the program as processes: this binary is the program when programEnv is set.
const programEnv = "SAGALOG_TEST_PROGRAM"

// startsMany leaves a test out of short runs because it starts many processes, each only to see a call refused.
func startsMany(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts many processes: run it without -short")
	}
}

// startsAgain leaves a test out of short runs because the engine that it starts does, beside what the test looks at, what it does in those
// that remain: two nodes with tokens and TLS, nodes on guarded brokers, serve, dev and bench, agents of other processes, keys that are
// replaced, spans, calls that are accepted. The race detector makes the start of each process several times as expensive.
func startsAgain(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts one more engine, in which the race detector has nothing new to find: step test runs it")
	}
}

// few is n, or fewer in short runs.
func few(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}

func TestMain(m *testing.M) {
	execagent.Guard() // the program starts itself as a guard, without its variables
	if os.Getenv(programEnv) == "" {
		os.Exit(m.Run())
	}
	main()
}

// stepWait bounds one step of a process. It is many times as long as a step takes, since a busy machine is slow.
const stepWait = 2 * time.Minute

// program is a running process of the program.
type program struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err written
	ended    chan struct{}
}

// written is the output of a process, which can be read while the process writes.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *written) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *written) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// place is the environment of a process: its working directory and its variables.
type place struct {
	dir string
	env []string
}

func (p place) start(t *testing.T, args ...string) *program {
	t.Helper()
	s := &program{t: t, cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SAGALOG_") {
			s.cmd.Env = append(s.cmd.Env, v)
		}
	}
	s.cmd.Env = append(append(s.cmd.Env, programEnv+"=1"), p.env...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = p.dir, &s.out, &s.err
	require.NoError(t, s.cmd.Start())
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		if t.Failed() {
			t.Logf("sagalog %s\n%s%s", strings.Join(args, " "), s.out.String(), s.err.String())
		}
	})
	return s
}

// run waits until a process ends without being stopped.
func (p place) run(t *testing.T, args ...string) *program {
	t.Helper()
	s := p.start(t, args...)
	s.end()
	return s
}

func (s *program) end() int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stepWait)
	defer cancel()
	select {
	case <-s.ended:
	case <-ctx.Done():
		require.FailNow(s.t, "the process did not end")
	}
	return s.cmd.ProcessState.ExitCode()
}

func (s *program) code() int { return s.cmd.ProcessState.ExitCode() }

// stop ends a process as a service manager does.
func (s *program) stop() int {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGTERM))
	return s.end()
}

// eventually waits for a condition while the process runs.
func (s *program) eventually(what string, condition func() bool) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		select {
		case <-s.ended:
			s.t.Errorf("%s: the process has ended", what)
			return true
		default:
			return condition()
		}
	}, stepWait, 20*time.Millisecond, what)
	require.False(s.t, s.t.Failed())
}

// endpoints waits for the file that a start writes last.
func (s *program) endpoints(data string) endpoints {
	s.t.Helper()
	var e endpoints
	s.eventually("endpoints.json", func() bool {
		text, err := os.ReadFile(filepath.Join(data, endpointsFile))
		return err == nil && json.Unmarshal(text, &e) == nil
	})
	return e
}
