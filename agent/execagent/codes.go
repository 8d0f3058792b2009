package execagent

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// tempFail is EX_TEMPFAIL of sysexits.h, by which a program asks to be started again later.
const tempFail = 75

// exitCodes says what the exit codes of a command mean.
type exitCodes struct {
	// success holds the codes that mean success, besides 0.
	success []int
	// retry holds the retryable codes. If permanent is not nil, it holds the codes that are permanent, and all others are retryable.
	retry, permanent []int
}

var defaultCodes = exitCodes{retry: []int{tempFail}}

func (c exitCodes) succeeds(code int) bool { return code == 0 || slices.Contains(c.success, code) }

// class returns the class of a failure with this code.
func (c exitCodes) class(code int) events.Class {
	retryable := slices.Contains(c.retry, code)
	if c.permanent != nil {
		retryable = !slices.Contains(c.permanent, code)
	}
	if retryable {
		return events.ClassRetryable
	}
	return events.ClassPermanent
}
