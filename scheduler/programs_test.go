package scheduler_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

// large returns a definition of about 512 KiB with all defaults.
func large(t *testing.T, n int) []byte {
	t.Helper()
	src, faults := scheduler.Parse("", fmt.Appendf(nil, "workflow: w\noutput: %q\nsteps: {a: {agent: x}}\n", fmt.Sprint(n, strings.Repeat(" long", 100_000))), nil)
	require.Empty(t, faults)
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	body, err := events.Marshal(d)
	require.NoError(t, err)
	return body
}

// A scheduler forgets definitions that it has not used for long, but not the one that it was asked about last.
func TestASchedulerForgetsDefinitions(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	shared := scheduler.NewShared()
	s, other := shared.New(), shared.New()
	body := large(t, 0)
	kept := 0
	for i := range 200 {
		hash := fmt.Sprintf("h-%d", i)
		require.NoError(t, s.Prepare("used always", body))
		require.NoError(t, s.Prepare(hash, body))
		require.NotNil(t, s.Program(hash))
		require.NotNil(t, s.Program("used always"))
		kept = max(kept, s.Kept())
	}
	require.LessOrEqual(t, kept, 2*(8<<20)/len(body)+2)
	require.Nil(t, s.Program("h-0"))
	require.NoError(t, s.Prepare("h-0", body))
	require.NoError(t, other.Prepare("h-0", body))
	require.Same(t, s.Program("h-0"), other.Program("h-0"), "the partitions of a process share what is compiled")
	runtime.KeepAlive(s)
}
