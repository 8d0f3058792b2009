package bench

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A quantile is never below the exact one, and less than one per cent above it.
func TestTheHistogramsQuantilesAreTheExactOnes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			// Each power of two is as likely as any other.
			return time.Duration(rapid.Int64Range(0, 1<<rapid.IntRange(0, topBits-1).Draw(t, "bits")).Draw(t, "value"))
		}), 1, 300).Draw(t, "durations")
		var h histogram
		for _, d := range list {
			h.add(d)
		}
		slices.Sort(list)
		require.EqualValues(t, len(list), h.count())
		require.Equal(t, list[len(list)-1], time.Duration(h.max.Load()))
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			exact := list[max(int(math.Ceil(q*float64(len(list))-1e-9)), 1)-1]
			got := h.quantile(q)
			require.GreaterOrEqual(t, got, exact, "q %g", q)
			require.LessOrEqual(t, float64(got), float64(exact)*(1+1.0/(1<<subBits))+1, "q %g", q)
		}
	})
}

func TestTheHistogramsBucketsMeetWithoutGap(t *testing.T) {
	t.Parallel()
	for bucket := range len(new(histogram).counts) - 1 {
		edge := upperEdge(bucket)
		require.Equal(t, bucket, bucketOf(edge))
		require.Equal(t, bucket+1, bucketOf(edge+1))
	}
	var h histogram
	require.Zero(t, h.quantile(0.5))
	h.add(-time.Second)
	h.add(48 * time.Hour)
	require.Equal(t, 48*time.Hour, time.Duration(h.max.Load()))
	require.Zero(t, h.quantile(0.5))
}
