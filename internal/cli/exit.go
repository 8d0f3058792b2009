package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/sagalog/sagalog/internal/api"
)

// The exit codes.
const (
	ExitOK           = 0
	ExitError        = 1
	ExitUsage        = 2
	ExitNotFound     = 3
	ExitConflict     = 4
	ExitStillRunning = 5
	ExitEndedBadly   = 6
	// ExitIncomplete means that a list was printed without the partitions that cannot be read.
	ExitIncomplete = 7
)

// ExitCodes says of each exit code, in their order, what it means.
func ExitCodes() []string {
	return []string{
		ExitOK:           "ok",
		ExitError:        "an error, also a call without a valid token (401) or without the role that it needs (403)",
		ExitUsage:        "wrong usage, also if only the engine notices it",
		ExitNotFound:     "not found",
		ExitConflict:     "a conflict (409): different content under the same ID, or a request that the task or the engine refuses in its current state",
		ExitStillRunning: "still running, or not judged, when the time ran out",
		ExitEndedBadly:   "the task is undone, terminated or in error; the job was stopped",
		ExitIncomplete:   "the list lacks partitions that cannot be read at the moment",
	}
}

// codeError is an error with an exit code. A quiet one has been reported already.
type codeError struct {
	code  int
	err   error
	quiet bool
	// called means that the command line was correct, so a hint to --help would not help.
	called bool
}

func (e *codeError) Error() string { return e.err.Error() }
func (e *codeError) Unwrap() error { return e.err }

// Usage returns the error of a wrong call, with exit code 2.
func Usage(format string, args ...any) error {
	return &codeError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// Unanswered returns the error of a correct call that could not be answered, for commands whose exit code 1 is an
// answer. Its exit code is 2, too.
func Unanswered(err error) error {
	if _, ok := errors.AsType[*codeError](err); ok || err == nil {
		return err
	}
	return &codeError{code: ExitUsage, err: err, called: true}
}

// Silent ends a command with exit code 1 and without a message: its output has said why.
func Silent(err error) error { return &codeError{code: ExitError, err: err, quiet: true} }

// ofData gives the exit code 1 to a problem with data that came from no flag, such as a definition's file.
func ofData(err error) error {
	if Code(err) != ExitUsage {
		return err
	}
	return &codeError{code: ExitError, err: err}
}

func exit(code int, format string, args ...any) error {
	return &codeError{code: code, err: fmt.Errorf(format, args...)}
}

// Code returns the exit code of a command's error.
func Code(err error) int {
	if err == nil {
		return ExitOK
	}
	if c, ok := errors.AsType[*codeError](err); ok {
		return c.code
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.exitCode()
	}
	return ExitError
}

// exitCode treats a request that the API could not use as a wrong call: its parameters and its body came from the command line.
// An input that was rejected later (code rejected) was a correct call.
func (p *Problem) exitCode() int {
	switch p.Status {
	case http.StatusNotFound, http.StatusGone:
		if p.Type == "" { // not an engine's: it says nothing about what was asked for
			return ExitError
		}
		return ExitNotFound
	case http.StatusConflict:
		return ExitConflict
	case http.StatusRequestEntityTooLarge:
		return ExitUsage
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if code := (*api.Problem)(p).Code(); code == "invalid" || code == "unreadable" {
			return ExitUsage
		}
	}
	return ExitError
}

// describe returns the text to print about an error, or "" if it has been reported already.
func describe(ctx context.Context, err error) string {
	if c, ok := errors.AsType[*codeError](err); ok && c.quiet {
		return ""
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return err.Error()
}
