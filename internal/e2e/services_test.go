package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/stretchr/testify/require"
)

// These tests are about faults that every user will meet: frozen processes and dead services.

// skipUnlessSized skips tests that take a minute, except in a full run or if a size is given, as in CI.
func skipUnlessSized(t *testing.T) {
	t.Helper()
	if !full && *deliveriesFlag == 0 {
		t.Skip("takes a minute: " + sayHow)
	}
}

// The engine is frozen again and again, like on a laptop that sleeps, for up to 9 s, which is longer than most
// complete-by times.
func TestAFrozenEngineGoesOn(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	r := rand.New(rand.NewPCG(seed(t), 1))
	work := workDir(t)
	f := startFleet(t, work, "--refuse", "drone=0.1", "--hang", hangRate())
	e := newEngineWith(t, work, f)
	e.start()
	l := startLoad(t, e, "f-", sized(*deliveriesFlag, 300, 2400), 60)
	frozen := 0
	for l.running() {
		after(t, time.Duration(r.Float64()*float64(4*time.Second)))
		require.NoError(t, e.cmd.Process.Signal(syscall.SIGSTOP))
		after(t, time.Duration(r.Float64()*float64(9*time.Second)))
		require.NoError(t, e.cmd.Process.Signal(syscall.SIGCONT))
		frozen++
	}
	t.Logf("frozen %d times", frozen)
	l.acknowledged(t, 5*patience)
	e.ready()
	e.quiet(4 * patience)
	l.agree(t, e, f.dir)
	e.stop()
}

// The services die instead of the engine. An operator retries the tasks that are parked because of this.
func TestKilledServices(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	r := rand.New(rand.NewPCG(seed(t), 2))
	work := workDir(t)
	args := []string{"--refuse", "drone=0.1", "--hang", hangRate(), "--port-base", strconv.Itoa(fivePorts(t))}
	f := startFleet(t, work, args...)
	e := newEngineWith(t, work, f)
	e.start()
	l := startLoad(t, e, "f-", sized(*deliveriesFlag, 300, 3000), 60)
	killed := 0
	for l.running() {
		after(t, time.Duration(r.Float64()*float64(2*time.Second)))
		f.kill()
		after(t, 20*time.Second)
		f = startFleet(t, work, args...)
		killed++
	}
	t.Logf("the services were killed %d times", killed)
	l.acknowledged(t, 5*patience)
	e.quiet(4 * patience)
	l.agree(t, e, f.dir, "--allow-parked")
	e.stop()
}

// fivePorts returns the first of five ports in a row that are free now.
func fivePorts(t *testing.T) int {
	t.Helper()
	base := 0
	eventually(t, patience, "five ports in a row are free", func() bool {
		_, port, err := net.SplitHostPort(freePort(t))
		require.NoError(t, err)
		base, err = strconv.Atoi(port)
		require.NoError(t, err)
		for i := range 5 {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(base+i)))
			if err != nil {
				return false
			}
			require.NoError(t, l.Close())
		}
		return true
	})
	return base
}

// A service refuses an attempt, so nothing has to be undone. Then the engine dies and the service would now accept, and
// the same attempt is delivered again, because an earlier attempt hangs and holds back the agent's low-water mark. The
// second delivery must not take effect, because nobody would ever undo it.
func TestARefusedAttemptIsNotRunAgain(t *testing.T) {
	t.Parallel()
	work := workDir(t)
	f := startFleet(t, work)
	e := newEngineWith(t, work, f)
	e.start()
	f.broken(t, "drone", dronedelivery.Fault{Mode: dronedelivery.Refuse})
	f.broken(t, "drone", dronedelivery.Fault{Mode: dronedelivery.Hang, Rate: 0.3})
	submitted, next := 0, 0
	more := func() { // all of them in one partition
		for id := ""; id == "" || events.Home(id, 8) != 3; next++ {
			id = fmt.Sprintf("h-%d", next)
			if events.Home(id, 8) == 3 {
				submitted++
				e.submit(id, delivery(id, 1))
			}
		}
	}
	for range 16 {
		more()
	}
	var undone []string
	eventually(t, patience, "each is refused or hangs, and one is refused after one that hangs", func() bool {
		lines, hung := f.ledger(t, "drone", ""), false
		if len(lines) < submitted {
			return false
		}
		for _, line := range lines {
			hung = hung || line.Status == 0
			if line.Status == 422 && hung {
				undone = append(undone, line.Task)
			}
		}
		if len(undone) == 0 {
			more()
		}
		return len(undone) > 0
	})
	for _, id := range undone {
		require.Equal(t, "undone", e.settled(id).State)
	}
	e.kill()
	f.fix(t, "drone")
	e.start()
	e.quiet(patience)
	for _, id := range undone {
		require.Equal(t, "undone", e.settled(id).State)
		require.Empty(t, f.effects(t, id), "%s is undone, but these effects remain; its calls: %+v", id, f.ledger(t, "drone", id))
	}
	e.stop()
}
