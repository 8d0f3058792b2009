package node_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fullEnv is the environment variable that asks for the runs that take minutes.
const fullEnv = "SAGALOG_E2E"

// rounds is how often a random test repeats: few times by default, many with SAGALOG_E2E=full.
func rounds(t *testing.T, few, many int) int {
	t.Helper()
	if os.Getenv(fullEnv) == "full" {
		return many
	}
	t.Logf("%d of %d rounds: set %s=full for all of them", few, many, fullEnv)
	return few
}

// bubble runs a test in virtual time: waits of minutes cost milliseconds.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// patience bounds every wait of these tests, both in virtual time and in real time.
const patience = 3 * time.Minute
