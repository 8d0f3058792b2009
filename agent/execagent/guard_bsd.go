//go:build unix && !linux

package execagent

import (
	"os"
	"syscall"
)

func self() (string, error) { return os.Executable() }

// adopts is false: a process that leaves the process group of its command and outlives its parent is not found here.
const adopts = false

func adoptOrphans() {}

// commandAttributes make the command the leader of a session without a terminal.
func commandAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func childrenOf(int) []int { return nil }
