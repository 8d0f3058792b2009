//go:build !unix

package bench

import "os/exec"

func apart(*exec.Cmd) {}
