package dronedelivery_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/stretchr/testify/require"
)

// quirks calls an unkind service until each of its ways has been seen, and returns what was seen.
func quirks(t *testing.T, service, path string) (faults map[dronedelivery.Mode]int, lines []dronedelivery.Line, statuses map[string]int) {
	t.Helper()
	faults, statuses = map[dronedelivery.Mode]int{}, map[string]int{}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		fleet, err := dronedelivery.New(dronedelivery.Config{Dir: dir, Unkind: true, Seed: 1})
		require.NoError(t, err)
		require.NoError(t, fleet.Listen())
		b := &bubble{t, fleet}
		for i := range 300 {
			at, key := fmt.Sprintf(path, i), fmt.Sprintf("k%d", i)
			del := call{service: service, method: "DELETE", path: at, key: "undo of " + key, undoes: key, attempt: 1}
			for n, c := range []call{put(service, at, key), put(service, at, key), del, del, put(service, at, key)} {
				statuses[fmt.Sprint([]string{"do", "repeat", "undo", "undo of nothing", "do after undo"}[n], " ", b.ask(c))]++
			}
			advance(dronedelivery.LateMax)
		}
		lines = b.ledger(service)
		for _, l := range lines {
			faults[l.Fault]++
		}
		require.NoError(t, fleet.Close())
	})
	return faults, lines, statuses
}

func TestUnkindServicesBreakWhatRealOnesBreak(t *testing.T) {
	t.Parallel()
	faults, lines, statuses := quirks(t, "drone", "/api/drones/t%d")
	for _, f := range []dronedelivery.Mode{dronedelivery.Fail, dronedelivery.Failed, dronedelivery.Late, dronedelivery.Reset, dronedelivery.Cut} {
		require.Positive(t, faults[f], f)
	}
	require.Positive(t, statuses["repeat 409"])
	require.Positive(t, statuses["repeat 200"])
	require.Positive(t, statuses["undo of nothing 404"])
	require.Positive(t, statuses["do after undo 201"], "a key is forgotten")
	require.Positive(t, statuses["do after undo 409"], "a key is refused after its undo")
	require.Positive(t, statuses["do after undo 200"], "a key is answered after its undo")
	late := 0
	for i, l := range lines {
		require.True(t, l.Unkind)
		require.False(t, l.Tombstone)
		if l.Fault == dronedelivery.Late && l.Status == 0 && l.Applied {
			late++
			require.Less(t, lines[i-1].Time, l.Time, "the time is that of the effect")
		}
		if l.Fault == dronedelivery.Fail {
			require.False(t, l.Applied)
		}
	}
	require.Positive(t, late)
}

func TestAnUnkindServiceNeverRefusesWhatHasNoUndo(t *testing.T) {
	t.Parallel()
	_, lines, _ := quirks(t, "delivery", "/api/deliveries/t%d")
	for _, l := range lines {
		require.False(t, l.Method == http.MethodPut && l.Status == http.StatusConflict)
	}
}
