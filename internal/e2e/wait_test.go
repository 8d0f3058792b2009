package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds every wait. It says nothing about the engine's speed, because the machine is small and shared.
const patience = 2 * time.Minute

// promised compares a figure with the README's promise, but only in a full run on an otherwise idle machine. Elsewhere
// the figure says more about the machine, so it is only printed.
func promised(t testing.TB, what string, took, bound time.Duration) {
	t.Helper()
	if full {
		require.Less(t, took, bound, what)
	} else if took >= bound {
		t.Logf("%s took %s; on a machine that does nothing else it takes less than %s", what, took.Round(time.Millisecond), bound)
	}
}

// look is the interval at which a condition is checked.
const look = 20 * time.Millisecond

// eventually waits until the condition holds.
func eventually(t testing.TB, bound time.Duration, what string, holds func() bool) {
	t.Helper()
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	deadline := time.Now().Add(bound)
	for !holds() {
		if time.Now().After(deadline) {
			require.FailNow(t, "timed out after "+bound.String(), what)
		}
		<-ticks.C
	}
}

// after waits for a duration that the test chose at random.
func after(t testing.TB, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
