//go:build unix && !linux

package bench

import (
	"os/exec"
	"syscall"
)

// ownProcessGroup puts a child in a separate process group: a terminal sends Ctrl-C to the whole group, and the children are needed
// until the tasks under way have ended.
func ownProcessGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
