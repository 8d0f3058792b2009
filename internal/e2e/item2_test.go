package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Issue item 2: deliveries through the five services in a process of their own, one of which refuses a tenth and one of
// which hangs after its effect now and then: each ends processed or undone, all ledgers agree with the log, and a lie in
// a ledger is found.
func TestEveryDeliveryEndsAndTheLedgersAgree(t *testing.T) {
	t.Parallel()
	work := workDir(t)
	f := startFleet(t, work, "--refuse", "drone=0.1", "--hang", hangRate())
	e := newEngineWith(t, work, f)
	e.start()
	begun := time.Now()
	l := startLoad(t, e, "d-", sized(*deliveriesFlag, 400, 10_000), 0)
	l.acknowledged(t, 10*patience)
	e.quiet(4 * patience)
	t.Logf("%d deliveries in %s", l.count, time.Since(begun).Round(time.Millisecond))
	s := l.agree(t, e, f.dir)
	require.Equal(t, l.count, s.Ends["processed"]+s.Ends["undone"])
	require.Positive(t, s.Ends["undone"])
	require.Positive(t, s.Ledgers["drone"].Refused)
	l.lies(t, e, f.dir, sized(0, 4, 20))
	e.stop()
}

// hangRate is now and then; a short run needs more of it to meet any.
func hangRate() string {
	if full {
		return "package=0.005"
	}
	return "package=0.02"
}
