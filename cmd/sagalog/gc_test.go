package main

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHeapIsCollectedAtItsGoal(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		alive uint64
		want  int
	}{
		{0, mostPercent}, {1, mostPercent}, {8 * mib, mostPercent}, {44 * mib, mostPercent}, // limited by mostPercent
		{56 * mib, 300}, {112 * mib, 100}, {140 * mib, leastPercent},
		{223 * mib, leastPercent}, {224 * mib, leastPercent}, {4096 * mib, leastPercent}, // limited by leastPercent
	} {
		require.Equal(t, c.want, percentFor(c.alive), "%d MiB", c.alive/mib)
	}
}

// Every heap is collected at the goal at the latest, or at leastPercent above its live part.
func TestNoHeapGrowsBeyondItsGoal(t *testing.T) {
	t.Parallel()
	for alive := uint64(1 << 20); alive < 2<<30; alive += 1 << 20 {
		grown := alive + alive*uint64(percentFor(alive))/100
		require.LessOrEqual(t, grown, max(heapGoal, alive+alive*leastPercent/100), "%d bytes", alive)
	}
}

// The percentage is set after each collection and not only after the first.
func TestThePercentageIsSetAfterEachCollection(t *testing.T) {
	t.Parallel()
	set := make(chan int, 1)
	p := &pacer{alive: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, set: func(percent int) {
		select {
		case set <- percent:
		default:
		}
	}}
	p.afterCycle()
	for range 3 {
		for told := false; !told; {
			runtime.GC()
			select {
			case percent := <-set:
				require.LessOrEqual(t, leastPercent, percent)
				told = true
			default:
				runtime.Gosched()
			}
		}
	}
}
