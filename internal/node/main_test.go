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

// minutes skips a test in which many minutes of virtual time pass, with -short. In each of them the nodes, the agents and the broker do what
// they do in any second of the other tests, and the race detector takes seconds of CPU for it.
func minutes(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("many minutes of heartbeats, in which the race detector has nothing new to find: step test runs it")
	}
}

// bubble runs a test in virtual time: waits of minutes cost milliseconds.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// patience bounds every wait of these tests, both in virtual time and in real time.
const patience = 3 * time.Minute
