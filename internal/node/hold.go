//go:build !sagalog_testhooks

package node

import "github.com/sagalog/sagalog/supervisor"

// held returns the producer as it is. (With the build tag sagalog_testhooks a test can hold its appends back.)
func held(p supervisor.Producer) supervisor.Producer { return p }
