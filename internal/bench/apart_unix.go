//go:build unix && !linux

package bench

import (
	"os/exec"
	"syscall"
)

// apart puts a child in a group of its own: Ctrl-C of a terminal goes to all of a group, and the children are needed until
// what is under way has ended.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
