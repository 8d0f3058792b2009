package sim_test

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
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
	require.Len(t, all, *days)
	require.Positive(t, r.Kinds[events.NameNotBeforePassed])
	// The log is kept for an eighth of the run at most, and a carry begins each quarter of that.
	early, late := all[*days/4:*days/2], all[*days/2:]
	require.Greater(t, late[len(late)-1].Cuts, early[len(early)-1].Cuts)
	require.Less(t, most(late, logBytes), most(early, logBytes)*3/2)
	require.Less(t, most(late, storeBytes), most(early, storeBytes)*2)
}

func logBytes(d sim.Day) int64   { return d.LogBytes }
func storeBytes(d sim.Day) int64 { return d.StoreBytes }

func most(of []sim.Day, bytes func(sim.Day) int64) (n int64) {
	for _, d := range of {
		n = max(n, bytes(d))
	}
	return n
}
