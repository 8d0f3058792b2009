package execagent

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is this program, even if its file was replaced since it was started.
func self() (string, error) { return "/proc/self/exe", nil }

// adopts says that a guard becomes the parent of the processes whose parent has died, so that none of them escapes.
const adopts = true

func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } // every Linux that Go supports has it

// commandAttributes make the command the leader of a session without a terminal. It dies with its guard.
func commandAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// childrenOf returns the children of a process.
func childrenOf(parent int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it is gone
		}
		// The name of the program, in parentheses, may contain anything. Its state and its parent follow.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(parent) {
			out = append(out, pid)
		}
	}
	return out
}
