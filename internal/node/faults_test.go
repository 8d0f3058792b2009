package node_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// Codes of the Kafka protocol.
const (
	requestTimedOut       = 7
	notEnoughAfterAppend  = 20
	outOfOrderSequence    = 45
	invalidRecord         = 87
	unknownServerError    = -1
	unknownProducerID     = 59
	notLeaderForPartition = 6
)

func TestAppendsThatGoWrongLoseNothing(t *testing.T) {
	every := func(n int, f fate) func(int) fate {
		return func(i int) fate {
			if i%n == n-1 {
				return f
			}
			return fate{}
		}
	}
	for name, c := range map[string]struct {
		fault func(int) fate
		// reclaims says that the fault must make the owner claim again.
		reclaims bool
	}{
		"refused although applied":               {every(8, fate{code: invalidRecord}), true},
		"failed with an unknown error":           {every(8, fate{code: unknownServerError}), false},
		"timed out although applied":             {every(5, fate{code: requestTimedOut}), false},
		"not replicated enough although applied": {every(5, fate{code: notEnoughAfterAppend}), false},
		"another leader although applied":        {every(5, fate{code: notLeaderForPartition}), false},
		"out of order although applied":          {every(8, fate{code: outOfOrderSequence}), true},
		"producer unknown although applied":      {every(8, fate{code: unknownProducerID}), true},
		"the connection is cut before an append": {every(6, fate{cutBefore: true}), false},
		"the connection is cut after an append":  {every(6, fate{cutAfter: true}), false},
		"no answer ever":                         {every(15, fate{silent: true}), false},
		"appends land late and out of order":     {every(10, fate{late: 700 * time.Millisecond}), false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := setup(t, 2)
				dir := t.TempDir()
				n := w.node(dir)
				w.apply(n, order)
				crew := w.hire(nil)
				w.disturb(n, c.fault)
				tasks := ids("t", rounds(t, 16, 200))
				for _, id := range tasks {
					w.submit(id)
				}
				w.watch.ended(tasks...)
				for _, id := range tasks {
					w.watch.state(id, events.TaskStateProcessed)
				}
				require.NoError(t, n.stop())
				t.Logf("%d epochs, %d void facts", epochs(w.watch.log()), voidFacts(w.watch.log()))
				if c.reclaims {
					require.Greater(t, epochs(w.watch.log()), 2, "each of the two partitions was claimed once")
				}
				w.watch.verify()
				w.everyCallIsInTheLog(crew)
				w.proveHashes(dir)
			})
		})
	}
}

// All appends of ten seconds are held back until the owner has given up its client. They then land behind the next
// claim.
func TestAppendsThatLandBehindTheNextClaimAreVoid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		crew := w.hire(nil)
		w.submit("t-0")
		w.watch.ended("t-0")
		var begin time.Time
		w.disturb(n, func(int) fate {
			if begin.IsZero() {
				begin = time.Now()
			}
			if time.Since(begin) < 9900*time.Millisecond {
				return fate{late: 14*time.Second - time.Since(begin)}
			}
			return fate{}
		})
		tasks := ids("t-1", 10)
		w.submit(tasks...)
		w.watch.ended(tasks...)
		w.watch.await("the late appends have landed", func() bool { return voidFacts(w.watch.facts) > 0 })
		w.submit("t-2")
		w.watch.ended("t-2")
		require.NoError(t, n.stop())
		require.Greater(t, epochs(w.watch.log()), 1)
		w.watch.verify()
		w.everyCallIsInTheLog(crew)
		w.proveHashes(dir)
	})
}

func TestABrokerThatStopsAndStartsLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := t.TempDir()
		w := setupOn(t, 2, disk)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		crew := w.hire(nil)
		var tasks []string
		for i := range 3 {
			more := ids(string(rune('a'+i)), 30)
			w.submit(more...)
			tasks = append(tasks, more...)
			at := len(w.watch.log()) + 60
			w.watch.await("some of it is done", func() bool { return len(w.watch.facts) > at })
			require.NoError(t, w.broker.Close())
			<-time.After(time.Duration(i) * 8 * time.Second) // the broker's downtime, in virtual time
			w.broker = kafkatest.StartBroker(t, embedded.Config{Network: w.network, Dir: disk})
		}
		w.watch.ended(tasks...)
		require.NoError(t, n.stop())
		w.watch.verify()
		w.everyCallIsInTheLog(crew)
		w.proveHashes(dir)
	})
}
