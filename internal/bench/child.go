package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// childWait is how long a process that was asked to end may take.
const childWait = 15 * time.Second

// child is another process of this program, which ends with it: its input is a pipe from here, whose end says so whatever
// became of this process. On Linux the kernel kills it too, in case it does not read.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	meters *meters
	// asked says that its end is our wish.
	asked atomic.Bool
	ended chan struct{}
	err   error
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
	started := make(chan error)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	return c, nil
}

// run starts the process and waits for its end, on one thread of the operating system: Linux kills the child when the
// thread ends that started it, and not when the process does (see apart).
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.start(); err != nil {
		started <- err
		return
	}
	c.meters.adopt(c)
	started <- nil
	c.err = c.cmd.Wait()
	c.meters.bury(c, c.cmd.ProcessState.UserTime()+c.cmd.ProcessState.SystemTime())
	close(c.ended) // before the list is locked, which EndAtOnce holds while it waits for this
	leftovers.mu.Lock()
	defer leftovers.mu.Unlock()
	delete(leftovers.children, c)
}

func (c *child) start() error {
	leftovers.mu.Lock()
	defer leftovers.mu.Unlock()
	if leftovers.ending {
		return errEnding
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	leftovers.children[c] = true
	return nil
}

// foreign tells of a variable that would set a flag of a child: all flags are given, but for how to authenticate. (Tests name
// their program by a variable.)
func foreign(variable string) bool {
	return strings.HasPrefix(variable, "SAGALOG_") && !strings.HasPrefix(variable, "SAGALOG_SASL") &&
		!strings.HasPrefix(variable, "SAGALOG_TLS") && !strings.HasPrefix(variable, "SAGALOG_TEST_")
}

// died says that it ended without being asked.
func (c *child) died() bool { return isClosed(c.ended) && !c.asked.Load() }

// reason is how it ended: an end without an error is one too, where nobody asked for it.
func (c *child) reason() error {
	if c.err == nil {
		return errors.New("exit status 0")
	}
	return c.err
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill ends it as a power cut would, and returns when the operating system says that it is gone.
func (c *child) kill() {
	c.asked.Store(true)
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// stop asks it to end and waits. Closing its input does that for agents, the signal for nodes.
func (c *child) stop() error {
	if isClosed(c.ended) {
		return fmt.Errorf("process %d ended by itself: %w", c.pid(), errors.Join(c.err, errors.New("see above")))
	}
	c.asked.Store(true)
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
