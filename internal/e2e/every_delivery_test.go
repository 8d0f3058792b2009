package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Deliveries go through the five services in a separate process. One service refuses a tenth of its calls, and one
// sometimes hangs after its effect; unkind services fail in other ways, forget and refuse what they did before, and leave no
// tombstones. Each delivery ends processed or undone, all ledgers agree with the log, and the audit finds a lie in a ledger.
func TestEveryDeliveryEndsAndTheLedgersAgree(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"kind": nil, "unkind": {"--unkind"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			work := workDir(t)
			f := startFleet(t, work, append(args, "--refuse", "drone=0.1", "--hang", hangRate())...)
			e := newEngineWith(t, work, f)
			e.start()
			begun := time.Now()
			l := startLoad(t, e, "d-", sized(*deliveriesFlag, 400, 10_000)/2, 0)
			l.acknowledged(t, 10*patience)
			e.quiet(4 * patience)
			t.Logf("%d deliveries in %s", l.count, time.Since(begun).Round(time.Millisecond))
			s := l.agree(t, e, f.dir)
			require.Equal(t, l.count, s.Ends["processed"]+s.Ends["undone"])
			require.Positive(t, s.Ends["undone"])
			require.Positive(t, s.Ledgers["drone"].Refused)
			l.lies(t, e, f.dir, sized(0, 4, 20)/2)
			e.verified(f.dir)
			e.stop()
		})
	}
}

// verified runs `sagalog verify` on the log and the ledgers.
func (e *engine) verified(ledgers string) {
	e.t.Helper()
	code, out, errs := output(e.t, program("sagalog"), "verify", "--brokers", e.Kafka, "--ledgers", ledgers)
	require.Zero(e.t, code, "%s\n%s", out, errs)
}

// hangRate is low, so a short run needs a higher rate to see any hang.
func hangRate() string {
	if full {
		return "package=0.005"
	}
	return "package=0.02"
}
