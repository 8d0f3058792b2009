//go:build synctests

package node_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector/projectortest"
	"github.com/stretchr/testify/require"
)

const quarterly = `
schedule: quarterly
workflow: report
cron: "*/15 1-3 * * *"
time_zone: Europe/Vienna
overlap: allow
input: {day: "${ schedule.due }"}
`

// Clocks are set forward and back while a schedule fires, and its owner is killed within 20 ms of each due time: each due time leads to one
// task. Of times of the day that do not exist only the first that follows is due, and of those that exist twice the first.
func TestFaultSchedulesFireOnceOverBothChangesOfTheClock(t *testing.T) {
	for name, c := range map[string]struct {
		begin string
		want  []string
	}{
		"forward": {"2000-03-26T00:10:00Z", []string{
			"2000-03-26T01:15:00+01:00", "2000-03-26T01:30:00+01:00", "2000-03-26T01:45:00+01:00",
			"2000-03-26T03:00:00+02:00", "2000-03-26T03:15:00+02:00", "2000-03-26T03:30:00+02:00", "2000-03-26T03:45:00+02:00",
		}},
		"back": {"2000-10-29T00:25:00Z", []string{
			"2000-10-29T02:30:00+02:00", "2000-10-29T02:45:00+02:00", // 02:00 to 02:59 comes again
			"2000-10-29T03:00:00+01:00", "2000-10-29T03:15:00+01:00", "2000-10-29T03:30:00+01:00", "2000-10-29T03:45:00+01:00",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			begin, err := time.Parse(time.RFC3339, c.begin)
			require.NoError(t, err)
			bubble(t, func(t *testing.T) {
				<-time.After(time.Until(begin))
				w := setup(t, 2)
				dice := rand.New(rand.NewPCG(*bubbleSeed, 11))
				disk := projectortest.NewDisk()
				n := w.node(memory, on(disk))
				w.apply(n, report)
				w.schedule(n, "quarterly", quarterly)
				var due events.Instant
				for range c.want {
					x := w.scheduled(n, "quarterly", func(x *events.Schedule) bool { return x.Next > due })
					due = x.Next
					<-time.After(time.Until(due.Time()) + time.Duration(dice.IntN(40)-20)*time.Millisecond)
					n.kill()
					disk = disk.PowerCut(0, dice)
					n = w.node(memory, on(disk))
					if len(x.Fires)+1 == len(c.want) {
						break
					}
				}
				x := w.scheduled(n, "quarterly", func(x *events.Schedule) bool {
					return len(x.Fires) == len(c.want) && len(x.Running) == 0
				})
				zone, err := time.LoadLocation("Europe/Vienna")
				require.NoError(t, err)
				for i, f := range x.Fires {
					require.Equal(t, c.want[i], f.Due.Time().In(zone).Format(time.RFC3339))
					require.Equal(t, "processed", f.State)
				}
				submitted := map[string]int{}
				for _, s := range w.watch.log() {
					if s.fate == events.FateAccepted && s.fact.Body.Name() == events.NameSubmitted {
						submitted[s.fact.Task]++
					}
				}
				require.Len(t, submitted, len(c.want))
				require.NoError(t, n.stop())
				w.watch.verify()
				w.proveDisks(disk)
			})
		})
	}
}
