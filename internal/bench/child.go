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

// childWait bounds how long a process may take to end after it was asked to.
const childWait = 15 * time.Second

// child is another process of this program that ends with this one. Its input is a pipe from here, which closes however this process
// ends. On Linux the kernel also kills it, in case it does not read.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	meters *meters
	// asked says that we asked it to end.
	asked atomic.Bool
	ended chan struct{}
	err   error
}

// startChild starts the program with arguments. Its log goes to stderr.
func startChild(m *meters, program string, stderr io.Writer, args ...string) (*child, error) {
	c := &child{cmd: exec.Command(program, args...), meters: m, ended: make(chan struct{})}
	c.cmd.Stderr = stderr
	c.cmd.Env = slices.DeleteFunc(os.Environ(), foreign)
	ownProcessGroup(c.cmd)
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

// run starts the process and waits for its end, on one thread of the operating system: Linux kills the child when the thread that
// started it ends, not when the process does (see ownProcessGroup).
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
	close(c.ended) // before the lock, which EndAtOnce holds while it waits for this
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

// foreign says whether a variable would set a flag of a child. All flags are given explicitly, except those for authentication.
// (Tests name their program by a variable.)
func foreign(variable string) bool {
	return strings.HasPrefix(variable, "SAGALOG_") && !strings.HasPrefix(variable, "SAGALOG_SASL") &&
		!strings.HasPrefix(variable, "SAGALOG_TLS") && !strings.HasPrefix(variable, "SAGALOG_TEST_")
}

// died says whether it ended without being asked to.
func (c *child) died() bool { return isClosed(c.ended) && !c.asked.Load() }

// reason is how it ended. If nobody asked for it, an end without an error is an error too.
func (c *child) reason() error {
	if c.err == nil {
		return errors.New("exit status 0")
	}
	return c.err
}

// cpu returns the CPU time that it has used.
func (c *child) cpu() time.Duration {
	if isClosed(c.ended) {
		return c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
	}
	return processCPU(c.pid())
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill ends it as a power cut would, and returns when it is gone.
func (c *child) kill() {
	c.asked.Store(true)
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// stop asks it to end and waits. Agents end when their input is closed, and nodes by the signal.
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
		return nil // the signal ended the process before it had begun to handle it
	}
	return fmt.Errorf("process %d: %w", c.pid(), exit)
}
