package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/stretchr/testify/require"
)

// standing says for each key of a do how often it took effect, and of which service and task its effect is, if it was not undone.
type standing struct {
	applied map[string]int
	effects map[string]map[string]bool // by task, then service
	calls   map[string]bool            // by task
}

// ledgersAgree compares the services' ledgers with what was submitted. The log does not hold the tasks any more, so this asks for what must be true
// of any of them: it has all of its effects or none, and each of them was made once. A submission that is sent again when its task has been forgotten
// makes another task, so of those that a stalled machine acknowledged that late, only the second is true.
func (k *keeping) ledgersAgree(s *stream, l *load, p pace) {
	k.t.Helper()
	x := standing{map[string]int{}, map[string]map[string]bool{}, map[string]bool{}}
	lines := 0
	for _, service := range dronedelivery.Services() {
		f, err := os.Open(filepath.Join(k.fleet.dir, service+".ndjson"))
		require.NoError(k.t, err)
		_, err = dronedelivery.ReadLines(f, func(line dronedelivery.Line, _ int) error {
			lines++
			x.add(service, line)
			return nil
		})
		require.NoError(k.t, err)
		require.NoError(k.t, f.Close())
	}
	var faults []string
	for key, n := range x.applied {
		if n > 1 {
			faults = append(faults, fmt.Sprintf("%s took effect %d times", key, n))
		}
	}
	processed, undone, late := 0, 0, 0
	for i := 1; i <= l.count; i++ {
		switch id := l.id(i); {
		case !x.calls[id]:
			faults = append(faults, id+" was accepted, and no service was called for it")
		case x.processed(id):
			processed++
		case len(x.effects[id]) == 0:
			undone++
		case !s.within(i, p.remember):
			late++
		default:
			faults = append(faults, fmt.Sprintf("%s has effects at %v only", id, x.effects[id]))
		}
	}
	slices.Sort(faults)
	require.Empty(k.t, faults[:min(len(faults), 20)], "%d faults", len(faults))
	require.Positive(k.t, undone)
	k.t.Logf("ledgers: %d calls for %d deliveries agree: %d were made, %d were undone, and %d are of a submission that may have come twice, too late", lines, l.count, processed, undone, late)
}

func (x *standing) add(service string, line dronedelivery.Line) {
	x.calls[line.Task] = true
	if x.effects[line.Task] == nil {
		x.effects[line.Task] = map[string]bool{}
	}
	switch {
	case !line.Applied:
	case line.Method == http.MethodDelete:
		delete(x.effects[line.Task], service)
	default:
		x.applied[service+" "+line.IdempotencyKey]++
		if service != "account" { // a check has no effect
			x.effects[line.Task][service] = true
		}
	}
}

// processed says whether a delivery has all its effects. (Not every one needs a transport.)
func (x *standing) processed(id string) bool {
	e := x.effects[id]
	return e["package"] && e["drone"] && e["delivery"]
}

// verified runs `sagalog verify` on what is left of the log. It refutes nothing, and what it cannot check is for the cuts.
func (k *keeping) verified(brokers string) {
	k.t.Helper()
	code, out, errs := output(k.t, program("sagalog"), "verify", "--brokers", brokers, "--at-rest", "-o", "json")
	var r struct {
		Verdict string
		Checks  []struct {
			Check, Status string
			Unable        []string
		}
		Findings []any
		Counts   struct{ Facts int }
	}
	requireJSON(k.t, []byte(out), &r)
	require.Empty(k.t, r.Findings)
	require.Contains(k.t, []int{0, 2}, code, errs)
	proved := []string{}
	for _, c := range r.Checks {
		switch c.Status {
		case "proved":
			proved = append(proved, c.Check)
		case "incomplete":
			for _, why := range c.Unable {
				require.True(k.t, strings.Contains(why, "was cut"), "%s: %s", c.Check, why)
			}
		default:
			require.Equal(k.t, "skipped", c.Status, c.Check)
		}
	}
	require.Subset(k.t, proved, []string{"fold", "ownership"})
	k.t.Logf("verify: %s; proved %v of %d facts", r.Verdict, proved, r.Counts.Facts)
}
