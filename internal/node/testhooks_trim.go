//go:build sagalog_testhooks

package node

import (
	"os"
	"time"
)

// trimVariable is a duration: this process looks that often for what can be deleted, and deletes it even if it is little. With it, a test sees
// within seconds what otherwise takes minutes.
const trimVariable = "SAGALOG_TEST_TRIM_EVERY"

func trimPaceOfTests() trimPace {
	every, err := time.ParseDuration(os.Getenv(trimVariable))
	if err != nil {
		return trimPace{}
	}
	return trimPace{every: every, records: 1, after: every}
}
