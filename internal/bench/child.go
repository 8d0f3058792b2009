package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// childWait is how long a process that was asked to end may take.
const childWait = 15 * time.Second

// child is another process of this program, which ends with it: its input is a pipe from here, and its end says so.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	meters *meters
	ended  chan struct{}
	err    error
}

// startChild starts the program with arguments. What it logs goes to stderr.
func startChild(m *meters, program string, stderr io.Writer, args ...string) (*child, error) {
	c := &child{cmd: exec.Command(program, args...), meters: m, ended: make(chan struct{})}
	c.cmd.Stderr = stderr
	c.cmd.Env = slices.DeleteFunc(os.Environ(), foreign)
	apart(c.cmd)
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	m.adopt(c)
	go func() {
		defer close(c.ended)
		c.err = c.cmd.Wait()
		m.bury(c, c.cmd.ProcessState.UserTime()+c.cmd.ProcessState.SystemTime())
	}()
	return c, nil
}

// foreign tells of a variable that would set a flag of a child: all flags are given, but for how to authenticate. (Tests name
// their program by a variable.)
func foreign(variable string) bool {
	return strings.HasPrefix(variable, "SAGALOG_") && !strings.HasPrefix(variable, "SAGALOG_SASL") &&
		!strings.HasPrefix(variable, "SAGALOG_TLS") && !strings.HasPrefix(variable, "SAGALOG_TEST_")
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill ends it as a power cut would, and returns when the operating system says that it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// stop asks it to end and waits. Closing its input does that for agents, the signal for nodes.
func (c *child) stop() error {
	if isClosed(c.ended) {
		return fmt.Errorf("process %d ended by itself: %w", c.pid(), errors.Join(c.err, errors.New("see above")))
	}
	_ = c.stdin.Close()
	_ = c.cmd.Process.Signal(os.Interrupt)
	late := time.NewTimer(childWait)
	defer late.Stop()
	select {
	case <-c.ended:
	case <-late.C:
		c.kill()
		return fmt.Errorf("process %d did not end within %s", c.pid(), childWait)
	}
	exit, ok := errors.AsType[*exec.ExitError](c.err)
	switch {
	case !ok:
		return c.err
	case exit.ExitCode() < 0:
		return nil // the signal came before the process had begun to listen to it, and has ended it all the same
	}
	return fmt.Errorf("process %d: %w", c.pid(), exit)
}
