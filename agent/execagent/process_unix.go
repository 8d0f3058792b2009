//go:build unix

package execagent

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supported says why this program cannot run commands; nil if it can.
func supported() error {
	if !guardable.Load() {
		return errors.New("this program runs no commands: it must call execagent.Guard first in main, or in TestMain")
	}
	return nil
}

// invocation is a command with all its parts.
type invocation struct {
	// program is its path.
	program string
	// args are its arguments, from its name on.
	args []string
	// env is its whole environment.
	env []string
	// dir is where it runs; the directory of this process if it is empty.
	dir string
	// stdin is what it may read, and stdout and stderr take what it writes. They must take everything.
	stdin          []byte
	stdout, stderr io.Writer
}

// ending is how a command ended.
type ending struct {
	// failed is the error because of which the command was not started.
	failed error
	// lost says that its guard was killed, so nobody knows how it ended.
	lost bool
	// signal ended it; zero if it ended by its exit code.
	signal syscall.Signal
	code   int
}

// process is a command that was started, under its guard.
type process struct {
	guard *exec.Cmd
	// control is where the guard is asked.
	control *os.File
	// ended is closed when nothing of the command runs any more; ending is valid from then on.
	ended  chan struct{}
	ending ending
}

// outputDelay is how long the output of a command is awaited after its guard is over. On Linux nothing is left then that could write.
// Elsewhere, and if the guard was killed, a process that has escaped may keep the output open.
const outputDelay = time.Second

// start starts a command. An error means that nothing was started.
func start(i invocation) (*process, error) {
	program, err := self()
	if err != nil {
		return nil, err
	}
	control, ask, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer control.Close()
	status, say, err := os.Pipe()
	if err != nil {
		ask.Close()
		return nil, err
	}
	defer say.Close()
	g := &exec.Cmd{
		Path: program, Args: append([]string{guardName, i.program}, i.args...), Env: append([]string{}, i.env...), Dir: i.dir,
		Stdout: i.stdout, Stderr: i.stderr, Stdin: bytes.NewReader(i.stdin), ExtraFiles: []*os.File{control, say},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // a signal from the terminal ends the agent first
		WaitDelay:   outputDelay,
	}
	if err := g.Start(); err != nil {
		ask.Close()
		status.Close()
		return nil, err
	}
	p := &process{guard: g, control: ask, ended: make(chan struct{})}
	go p.follow(status)
	return p, nil
}

// follow reads what the guard says until it is over.
func (p *process) follow(status *os.File) {
	defer close(p.ended)
	pid := 0
	p.ending.lost = true
	for lines := bufio.NewScanner(status); lines.Scan(); {
		var word string
		var number int
		if _, err := fmt.Sscan(lines.Text(), &word, &number); err != nil {
			break
		}
		switch word {
		case saysStarted:
			pid = number
		case saysFailed:
			p.ending = ending{failed: syscall.Errno(number)}
		case saysExited:
			p.ending = ending{code: number}
		case saysKilled:
			p.ending = ending{signal: syscall.Signal(number)}
		}
	}
	if p.ending.lost && pid > 0 {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	_ = p.guard.Wait() // the guard has said everything
	status.Close()
	p.control.Close()
}

// terminate asks the command to end.
func (p *process) terminate() { p.ask(askTerm) }

// kill ends the command and everything that it has started. The guard goes on first, if somebody stopped it: the command itself may have.
func (p *process) kill() {
	p.ask(askKill)
	_ = p.guard.Process.Signal(syscall.SIGCONT)
}

// ask fails if the guard is over, and then there is nothing to end.
func (p *process) ask(b byte) { _, _ = p.control.Write([]byte{b}) }

// hopeless says that a command that could not be started will not start later either.
func hopeless(err error) bool {
	for _, e := range []error{syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.ENOTDIR, syscall.E2BIG, syscall.EINVAL, syscall.ELOOP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// executable says why a file cannot be executed; nil if it can.
func executable(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		return errNotThere
	case err != nil:
		return errors.Unwrap(err)
	case info.IsDir():
		return errDirectory
	case unix.Access(path, unix.X_OK) != nil:
		return errNotExecutable
	}
	return nil
}

var (
	errNotThere      = errors.New("does not exist")
	errDirectory     = errors.New("is a directory")
	errNotExecutable = errors.New("may not be executed: set its permission (chmod +x)")
)
