//go:build !unix

package execagent

import (
	"errors"
	"io"
	"runtime"
)

// Guard does nothing on this system.
func Guard() {}

func supported() error {
	return errors.New("commands cannot be run on " + runtime.GOOS + ": run this agent on Linux, or on another Unix system")
}

type invocation struct {
	program        string
	args, env      []string
	dir            string
	stdin          []byte
	stdout, stderr io.Writer
}

type ending struct {
	failed error
	lost   bool
	signal signalNumber
	code   int
}

type process struct {
	ended  chan struct{}
	ending ending
}

func start(invocation) (*process, error) { return nil, supported() }

func (*process) terminate() {}

func (*process) kill() {}

func hopeless(error) bool { return true }

func executable(string) error { return supported() }

// signalNumber is a signal, of which this system has none.
type signalNumber int

func (signalNumber) String() string { return "signal" }
