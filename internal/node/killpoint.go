//go:build !sagalog_testhooks

package node

import (
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/supervisor"
)

// With the build tag sagalog_testhooks a test can have the process die at a point of the crash table. Without it these
// return what they are given.

func mortalLog(l supervisor.Log) supervisor.Log                   { return l }
func mortalCommitter(c supervisor.Committer) supervisor.Committer { return c }
func mortalAppender(a api.Appender) api.Appender                  { return a }
