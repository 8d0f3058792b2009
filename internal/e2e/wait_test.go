package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds every wait. It is no figure of the engine: the machine is small and shared.
const patience = 2 * time.Minute

// look is how often a condition is looked at.
const look = 20 * time.Millisecond

// eventually waits until the condition holds.
func eventually(t testing.TB, bound time.Duration, what string, holds func() bool) {
	t.Helper()
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	deadline := time.Now().Add(bound)
	for !holds() {
		if time.Now().After(deadline) {
			require.FailNow(t, "waited "+bound.String()+" in vain", what)
		}
		<-ticks.C
	}
}

// after waits for an instant that the test chose at random.
func after(t testing.TB, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
