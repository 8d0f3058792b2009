package sim_test

import (
	"flag"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/sim"
)

var (
	seeds = flag.Int("sim.seeds", 0, "number of seeds to run; 0 is 500, or 60 with -short")
	seed  = flag.Uint64("sim.seed", 0, "the first seed; with -sim.seeds=1 it is run alone")
)

// run runs seeds from first on, two at a time, and returns the first that failed by number.
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
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return failed, total
}

// TestEverySeedKeepsTheInvariants is L1 of DESIGN 11.
func TestEverySeedKeepsTheInvariants(t *testing.T) {
	n, first := *seeds, uint64(1)
	if n == 0 {
		n = 500
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
	begin := time.Now()
	failed, total := run(first, n, sim.Options{})
	if failed != nil {
		t.Fatal(failed.String())
	}
	t.Logf("%d seeds in %s (%.0f/s): %d facts, %d void, %d epochs, %d tasks, %d steps", n, time.Since(begin).Round(time.Millisecond), float64(n)/time.Since(begin).Seconds(), total.Facts, total.Void, total.Epochs, total.Tasks, total.Steps)
	if n >= 50 {
		require.Positive(t, total.Void)
	}
}

func TestARunIsAFunctionOfItsSeed(t *testing.T) {
	t.Parallel()
	n := uint64(40)
	if testing.Short() {
		n = 8
	}
	for s := uint64(1); s <= n; s++ {
		a, b := sim.Run(s, sim.Options{}), sim.Run(s, sim.Options{Trace: true})
		require.Equal(t, a.Digest, b.Digest, "seed %d", s)
		require.Equal(t, a.Steps, b.Steps, "seed %d", s)
	}
}
