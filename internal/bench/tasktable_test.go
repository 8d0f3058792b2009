package bench

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestATaskIDContainsItsNumber(t *testing.T) {
	t.Parallel()
	n := newNames("0a1b2c3d")
	rapid.Check(t, func(t *rapid.T) {
		task := rapid.IntRange(0, maxTasks-1).Draw(t, "task")
		got, ok := n.number(n.append(nil, task))
		require.True(t, ok)
		require.Equal(t, task, got)
	})
	for _, id := range []string{"", "order-0a1b2c3d-", "order-0a1b2c3e-1", "order-0a1b2c3d-01", "order-0a1b2c3d-1x", "order-0a1b2c3d-999999999", "order-0a1b2c3d-9999999999999999999999"} {
		_, ok := n.number([]byte(id))
		require.False(t, ok, id)
	}
}

func TestCallsAreCountedByStepAndSurviveTheirFile(t *testing.T) {
	t.Parallel()
	var c calls
	for range 3 {
		c.add(7, 0)
	}
	c.add(blockSize*3+1, 4)
	for range 2 * manyCalls {
		c.add(8, 4)
	}
	file := filepath.Join(t.TempDir(), "calls")
	require.NoError(t, c.write(file))
	var back calls
	require.NoError(t, back.read(file))
	for _, of := range []*calls{&c, &back} {
		require.Equal(t, 3, callsOf(of.get(7), 0))
		require.Equal(t, 0, callsOf(of.get(7), 1))
		require.Equal(t, 1, callsOf(of.get(blockSize*3+1), 4))
		require.Equal(t, manyCalls, callsOf(of.get(8), 4), "a count stops before it overflows into the next one")
		require.Zero(t, of.get(-1))
		require.Zero(t, of.get(maxTasks))
	}
	require.EqualValues(t, 2*4*blockSize, c.bytes(4))
}

func TestTheGivenShareOfTheCallsIsSlow(t *testing.T) {
	t.Parallel()
	l := Latency{Fixed: time.Millisecond, TailShare: 0.01, Tail: time.Second}
	tailed, hit := 0, 0
	const tasks = 100_000
	for task := range tasks {
		for step := range steps {
			if l.tailed(task, step) {
				tailed++
			}
		}
		if l.hit(task) {
			hit++
		}
	}
	require.InDelta(t, 0.01, float64(tailed)/float64(tasks*len(steps)), 0.001)
	require.InDelta(t, 0.049, float64(hit)/float64(tasks), 0.003)
	require.False(t, new(Latency).hit(1))
}

func TestASlopeIsTheSlopeOfTheLine(t *testing.T) {
	t.Parallel()
	var list []Sample
	for i := range 10 {
		list = append(list, Sample{Finished: int64(i) * 1e5, RSS: 100 + 20*float64(i)/10})
	}
	x, y := func(s Sample) float64 { return float64(s.Finished) / 1e6 }, func(s Sample) float64 { return s.RSS }
	require.InDelta(t, 20, slope(list, x, y), 1e-6)
	require.Zero(t, slope(list[:1], x, y))
	require.Zero(t, slope([]Sample{{}, {}}, x, y))
}
