//go:build !sagalog_testhooks

package node

import (
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/supervisor"
)

// With the build tag sagalog_testhooks, tests can kill the process at a point of the crash table (testhooks_kill.go),
// delay appends (testhooks_delay.go), and make it delete what nobody needs sooner (testhooks_trim.go). Without it these return their
// arguments, or nothing.

func delayed(p supervisor.Producer) supervisor.Producer           { return p }
func mortalScheduler(s supervisor.Scheduler) supervisor.Scheduler { return s }
func mortalLog(l supervisor.Log) supervisor.Log                   { return l }
func mortalCommitter(c supervisor.Committer) supervisor.Committer { return c }
func trimPaceOfTests() trimPace                                   { return trimPace{} }
func mortalAppender(a api.Appender) api.Appender                  { return a }
