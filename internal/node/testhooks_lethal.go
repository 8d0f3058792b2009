//go:build sagalog_testhooks

package node

import (
	"bytes"
	"os"
	"runtime/debug"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// lethalVariable is a text: this process ends by a fatal error of the runtime when it judges a submission whose input contains it.
const lethalVariable = "SAGALOG_TEST_LETHAL"

func mortalScheduler(s supervisor.Scheduler) supervisor.Scheduler {
	if text := os.Getenv(lethalVariable); text != "" {
		return &dyingScheduler{s, []byte(text)}
	}
	return s
}

type dyingScheduler struct {
	supervisor.Scheduler
	lethal []byte
}

// Accept implements supervisor.Scheduler.
func (s *dyingScheduler) Accept(hash string, sub *events.Submission, version int) (events.Acceptance, string) {
	if bytes.Contains(sub.Input, s.lethal) {
		debug.SetMaxStack(1 << 20)
		os.Exit(overflow(0)) // does not return
	}
	return s.Scheduler.Accept(hash, sub, version)
}

// overflow overflows the stack, which nothing can recover.
func overflow(n int) int {
	if n < 0 {
		return n
	}
	return overflow(n+1) + 1
}
