//go:build unix

package execagent

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// guardName is the first argument of a process that is a guard. Nobody calls a program that.
const guardName = "sagalog-command-guard"

// The files of a guard besides standard input, output and error, which it leaves to its command.
const (
	controlFile = 3
	statusFile  = 4
)

// What an agent writes to its guard. The end of the file, which comes when the agent has died, means askKill too.
const (
	askTerm = 'T'
	askKill = 'K'
)

// What a guard writes to its agent, each with a number: a line when the command has started or could not, and a line when all is over.
const (
	saysStarted = "started" // its process ID
	saysFailed  = "failed"  // the system's error
	saysExited  = "exited"  // the exit code
	saysKilled  = "killed"  // the signal
)

// guardable says that Guard was called, so that this program may be started as a guard.
var guardable atomic.Bool

// Guard must be the first call of a program that runs bindings of this package. For each command such a program starts itself once
// more, as the guard of that command, and in a guard this call does not return. Without it bindings are refused.
//
// A test binary is such a program too:
//
//	func TestMain(m *testing.M) {
//		execagent.Guard()
//		os.Exit(m.Run())
//	}
func Guard() {
	if len(os.Args) > 2 && os.Args[0] == guardName {
		os.Exit(watch(os.Args[1], os.Args[2:]))
	}
	guardable.Store(true)
}

// guard ends a command with everything that it has started, whatever happens to the agent.
type guard struct {
	status *os.File
	// command is the process ID of the command, and of its process group until it is reaped.
	command int
	// exited says that the command is over, and last how it ended.
	exited bool
	last   syscall.WaitStatus
}

// sweep is how often a guard looks again for processes that it has to kill: they may have forked meanwhile.
const sweep = 20 * time.Millisecond

// watch runs one command in a separate session, ends what it leaves behind, and returns when nothing of it runs any more. All
// signals are sent, and all processes reaped, in one goroutine, so that no process ID is used after its process was reaped.
func watch(program string, args []string) int {
	// The system kills the command when the thread that started it ends.
	runtime.LockOSThread()
	syscall.CloseOnExec(controlFile)
	syscall.CloseOnExec(statusFile)
	children, ends := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	adoptOrphans()
	g := &guard{status: os.NewFile(statusFile, "status")}
	pid, err := syscall.ForkExec(program, args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: commandAttributes(),
	})
	if err != nil {
		number, _ := err.(syscall.Errno)
		g.say(saysFailed, int(number))
		return 0
	}
	g.command = pid
	g.say(saysStarted, pid)
	g.untilOver(listen(os.NewFile(controlFile, "control")), ends, children)
	if g.last.Signaled() {
		g.say(saysKilled, int(g.last.Signal()))
	} else {
		g.say(saysExited, g.last.ExitStatus())
	}
	return 0
}

// say writes a line to the agent. If the agent is dead, nobody reads it, and nothing depends on it.
func (g *guard) say(word string, number int) {
	_, _ = fmt.Fprintln(g.status, word, number)
}

// listen returns what the agent asks. The channel is closed when the agent is dead.
func listen(control *os.File) <-chan byte {
	asked := make(chan byte)
	go func() {
		defer close(asked)
		var b [1]byte
		for {
			if n, err := control.Read(b[:]); n == 0 || err != nil {
				return
			}
			asked <- b[0]
		}
	}()
	return asked
}

// untilOver returns when the command and everything that it has started is over.
func (g *guard) untilOver(asked <-chan byte, ends, children <-chan os.Signal) {
	var again <-chan time.Time
	killing := false
	for {
		select {
		case b, alive := <-asked:
			if !alive {
				asked = nil
			}
			if killing = killing || b != askTerm; !killing {
				g.terminate()
			}
		case <-ends:
			g.terminate()
		case <-children:
		case <-again:
		}
		over := g.reap()
		if killing = killing || g.exited; !killing {
			continue
		}
		g.kill()
		if over {
			return
		}
		if again == nil {
			again = time.Tick(sweep)
		}
	}
}

// terminate asks the process group of the command to end.
func (g *guard) terminate() {
	if !g.exited {
		_ = syscall.Kill(-g.command, syscall.SIGTERM)
	}
}

// kill kills the process group of the command, and the processes that this guard has adopted. The children of those become its own
// children, and are killed in the next sweep.
func (g *guard) kill() {
	if !g.exited || !adopts {
		_ = syscall.Kill(-g.command, syscall.SIGKILL)
	}
	for _, pid := range childrenOf(os.Getpid()) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// reap takes the processes that are over, and reports whether there are no others.
func (g *guard) reap() (over bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return true
		case pid == 0:
			return false
		case pid == g.command:
			g.exited, g.last = true, status
		}
	}
}
