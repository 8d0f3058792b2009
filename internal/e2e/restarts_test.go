package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Deliveries arrive at a steady rate, and the whole engine is killed by kill -9 at random moments, sometimes while it
// starts. No delivery is lost or accepted twice, and every delivery ends.
func TestKillsLoseNothing(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(seed(t), 3))
	work := workDir(t)
	f := startFleet(t, work, "--refuse", "drone=0.1", "--hang", hangRate())
	e := newEngineWith(t, work, f)
	e.start()
	n := sized(*deliveriesFlag, 300, 10_000)
	span := time.Duration(sized(*minutesFlag, 0.1, 2.2) * float64(time.Minute))
	rate := sized(*rateFlag, float64(n)/span.Seconds(), float64(n)/span.Seconds())
	kills := sized(*killsFlag, 2, 12)
	mean := time.Duration(float64(n) / rate * float64(time.Second) / float64(kills+3))
	l := startLoad(t, e, "k-", n, rate)

	killed, starts := 0, []time.Duration{}
	for l.running() || killed < kills {
		gap := time.Duration(r.Float64() * 2 * float64(mean))
		if r.IntN(5) == 0 {
			gap = time.Duration(r.Int64N(int64(300 * time.Millisecond))) // while it starts
		}
		after(t, gap)
		e.kill()
		killed++
		begun := time.Now()
		e.launch()
		starts = append(starts, time.Since(begun))
	}
	slices.Sort(starts)
	t.Logf("%d kills; from start to listening p50 %s, max %s", killed, percentile(starts, 0.5).Round(time.Millisecond), percentile(starts, 1).Round(time.Millisecond))
	l.acknowledged(t, 5*patience)
	e.ready()
	e.quiet(4 * patience)
	s := l.agree(t, e, f.dir)
	require.Equal(t, n, s.Ends["processed"]+s.Ends["undone"])
	l.lies(t, e, f.dir, 4)
	e.stop()
}
