package execagent

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
)

var (
	errNoPath    = errors.New("is not a path, and env does not name PATH: write the whole path, or add PATH to env")
	errNotInPath = errors.New("is in no directory of the PATH of env")
)

// find returns the path of the program. It is looked up each time, since the program may be replaced or moved.
func (c *command) find() (string, error) {
	if strings.ContainsRune(c.program, filepath.Separator) {
		at := c.program
		if c.dir != "" && !filepath.IsAbs(at) {
			at = filepath.Join(c.dir, at)
		}
		if err := executable(at); err != nil {
			return "", &programError{c.program, err}
		}
		return at, nil
	}
	if c.path == "" {
		return "", &programError{c.program, errNoPath}
	}
	for _, dir := range filepath.SplitList(c.path) {
		if !filepath.IsAbs(dir) {
			continue // a program must not depend on where this process runs
		}
		at := filepath.Join(dir, c.program)
		if executable(at) == nil {
			return at, nil
		}
	}
	return "", &programError{c.program, errNotInPath}
}

// programError says why a program cannot be started.
type programError struct {
	program string
	cause   error
}

func (e *programError) Error() string {
	return "the program " + strconv.Quote(e.program) + " " + e.cause.Error()
}

func (e *programError) Unwrap() error { return e.cause }
