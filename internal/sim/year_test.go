package sim_test

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/sim"
)

var days = flag.Int("sim.days", 5, "how many virtual days TestAYear takes")

// TestAYear keeps a log for a part of the run, and cuts it many times. After each cut an empty store is built from what is left, and is that of the
// whole log. The log and the stores do not grow. For more than a year:
//
//	go test ./internal/sim -run TestAYear -v -timeout 2h -sim.days 400
func TestAYear(t *testing.T) {
	t.Parallel()
	var all []sim.Day
	opt := sim.Year(*days)
	opt.EachDay = func(d sim.Day) {
		all = append(all, d)
		t.Logf("day %3d: %s", len(all), &d)
	}
	r := sim.Run(1, opt)
	require.False(t, r.Failed(), "%s", r)
	t.Log(r, r.Kinds)
}
