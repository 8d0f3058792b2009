//go:build unix

package main

import "syscall"

// keepPrivate makes all files that this process creates unreadable for other users: the log holds inputs and outputs of tasks. The
// embedded broker leaves that to the process.
func keepPrivate() { syscall.Umask(0o077) }
