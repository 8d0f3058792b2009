package sim_test

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/sim"
)

var (
	seeds   = flag.Int("sim.seeds", 0, "number of seeds to run; 0 is 200, or 60 with -short")
	seed    = flag.Uint64("sim.seed", 0, "the first seed; without -sim.seeds it is run alone")
	options = flag.String("sim.opt", "", "the options of the runs, as a failing run prints them")
	trace   = flag.String("sim.trace", "", "a file for the whole trace; needs a single run that fails")
	shrink  = flag.Int("sim.shrink", 3000, "how many runs to spend on shrinking a failed run")
)

// A run allocates much and keeps little. Collecting garbage less often makes it a third faster and costs some tens of
// megabytes.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// run runs the seeds from first on, several at a time, and returns the lowest seed that failed.
func run(first uint64, n int, opt sim.Options) (failed *sim.Report, total sim.Report) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := first
	for range min(runtime.GOMAXPROCS(0), 4) {
		wg.Go(func() {
			for {
				mu.Lock()
				s := next
				next++
				over := s >= first+uint64(n) || (failed != nil && failed.Seed < s)
				mu.Unlock()
				if over {
					return
				}
				r := sim.Run(s, opt)
				mu.Lock()
				if r.Failed() && (failed == nil || r.Seed < failed.Seed) {
					failed = r
				}
				total.Facts += r.Facts
				total.Void += r.Void
				total.Epochs += r.Epochs
				total.Tasks += r.Tasks
				total.Steps += r.Steps
				total.Saw.Add(&r.Saw)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return failed, total
}

// TestEverySeedKeepsTheInvariants runs many seeds, and requires that together they reached all common situations.
func TestEverySeedKeepsTheInvariants(t *testing.T) {
	n, first := *seeds, uint64(1)
	if n == 0 {
		n = 200
		if testing.Short() {
			n = 60
		}
	}
	if *seed != 0 {
		first = *seed
		if *seeds == 0 {
			n = 1
		}
	}
	opt, err := sim.ParseOptions(*options)
	require.NoError(t, err)
	begin := time.Now()
	failed, total := run(first, n, opt)
	if failed != nil {
		if n == 1 {
			if *trace != "" {
				require.NoError(t, os.WriteFile(*trace, []byte(strings.Join(failed.Trace, "\n")), 0o600))
			}
			t.Fatal(failed.String())
		}
		t.Fatalf("%s\n\n%s", failed, sim.Shrink(failed, *shrink))
	}
	t.Logf("%d seeds in %s (%.0f/s): %d facts, %d void, %d epochs, %d tasks, %d steps", n, time.Since(begin).Round(time.Millisecond), float64(n)/time.Since(begin).Seconds(), total.Facts, total.Void, total.Epochs, total.Tasks, total.Steps)
	t.Logf("situations that the runs reached:\n%s", &total.Saw)
	if n >= 200 && *options == "" {
		require.Empty(t, total.Saw.Missing(n), "no run reached these, so nothing is proved about them")
	}
}

func TestARunIsAFunctionOfItsSeed(t *testing.T) {
	t.Parallel()
	n := uint64(20)
	if testing.Short() {
		n = 8
	}
	for s := uint64(1); s <= n; s++ {
		a, b := sim.Run(s, sim.Options{}), sim.Run(s, sim.Options{Trace: true})
		require.Equal(t, a.Digest, b.Digest, "seed %d", s)
		require.Equal(t, a.Steps, b.Steps, "seed %d", s)
		// The printed options are enough to repeat a run.
		opt, err := sim.ParseOptions(a.Options.String())
		require.NoError(t, err)
		require.Equal(t, a.Digest, sim.Run(s, opt).Digest, "seed %d by its options", s)
	}
}

// A copy runs the code of the product, which walks over maps.
func TestARunWithCopiesIsAFunctionOfItsSeed(t *testing.T) {
	t.Parallel()
	opt := sim.Options{Faults: &sim.Faults{Copy: 2, Duplicate: 0.2, Schedules: 2, AgentFails: 0.3, Misplaced: 0.2, Cancel: 0.3, Crash: 2}}
	for s := uint64(1); s <= 6; s++ {
		a, b := sim.Run(s, opt), sim.Run(s, opt)
		require.False(t, a.Failed(), "%s", a)
		require.Equal(t, a.Digest, b.Digest, "seed %d", s)
		require.Equal(t, a.Steps, b.Steps, "seed %d", s)
	}
}
