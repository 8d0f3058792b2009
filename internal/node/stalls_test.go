package node_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// fakeOwner is an owner that reports whatever a test sets.
type fakeOwner struct {
	status supervisor.Status
	err    error
	since  time.Time
}

func (o *fakeOwner) Status() (supervisor.Status, error) { return o.status, o.err }

func (o *fakeOwner) Busy() time.Duration {
	if o.since.IsZero() {
		return 0
	}
	return time.Since(o.since)
}

// stalling looks at two owners in virtual time; the second one has nothing to do.
func stalling(t *testing.T, f func(t *testing.T, o *fakeOwner, s *node.Stalls, logs *logBook)) {
	bubble(t, func(t *testing.T) {
		owning := supervisor.Status{Assigned: true, Owning: true}
		o, idle, logs := &fakeOwner{status: owning}, &fakeOwner{status: owning}, &logBook{}
		s := node.NewStalls(logs.logger(), o, idle)
		s.Wait(time.Hour)
		f(t, o, s, logs)
		require.NoError(t, s.Of(1))
	})
}

func TestAPartitionThatDecidesNothingIsNotReady(t *testing.T) {
	for name, stop := range map[string]func(*fakeOwner){
		"inputs wait":                func(o *fakeOwner) { o.status.Waiting = 3 },
		"an append has no answer":    func(o *fakeOwner) { o.status.InFlight = 1 },
		"one decision takes long":    func(o *fakeOwner) { o.since = time.Now() },
		"facts, but none is durable": func(o *fakeOwner) { o.status.Waiting, o.status.Stats.Facts = 3, 7 },
	} {
		t.Run(name, func(t *testing.T) {
			stalling(t, func(t *testing.T, o *fakeOwner, s *node.Stalls, logs *logBook) {
				stop(o)
				s.Wait(29 * time.Second)
				require.NoError(t, s.Of(0))
				s.Wait(3 * time.Second)
				require.ErrorContains(t, s.Of(0), "partition 0 has decided nothing for 3")
				s.Wait(time.Hour)
				require.Len(t, logs.find("ERROR nothing is decided in this partition although inputs wait"), 1)

				o.status.Stats.Durable, o.since = 1, time.Time{}
				s.Wait(2 * time.Second)
				require.NoError(t, s.Of(0))
				stop(o)
				s.Wait(time.Minute)
				require.Error(t, s.Of(0))
				require.Len(t, logs.find("partition=0"), 2, "once for each stall")
			})
		})
	}
}

// An owner whose epochs end before their facts are durable owns the partition most of the time.
func TestTheStallOfAPartitionOutlastsItsEpochs(t *testing.T) {
	stalling(t, func(t *testing.T, o *fakeOwner, s *node.Stalls, _ *logBook) {
		for range 4 {
			o.status.Owning, o.status.Waiting = true, 1
			s.Wait(10 * time.Second)
			o.status.Owning, o.status.Waiting = false, 0
			s.Wait(2 * time.Second)
		}
		require.Error(t, s.Of(0))
	})
}

func TestAPartitionThatMayWaitIsReady(t *testing.T) {
	for name, wait := range map[string]func(*fakeOwner){
		"nothing to do":            func(*fakeOwner) {},
		"a suspended clock":        func(o *fakeOwner) { o.status.Waiting, o.status.Suspended = 3, true },
		"an open transaction":      func(o *fakeOwner) { o.status.Blocked.Since = 1 },
		"given up":                 func(o *fakeOwner) { o.status = supervisor.Status{Waiting: 3} },
		"another owner or a claim": func(o *fakeOwner) { o.status.Owning, o.status.Waiting = false, 3 },
		"stopped":                  func(o *fakeOwner) { o.status.Waiting, o.err = 3, errors.New("the input is lost") },
	} {
		t.Run(name, func(t *testing.T) {
			stalling(t, func(t *testing.T, o *fakeOwner, s *node.Stalls, logs *logBook) {
				wait(o)
				s.Wait(time.Hour)
				require.NoError(t, s.Of(0))
				require.Empty(t, logs.find("ERROR"))
			})
		})
	}
}

// A partition that decides a little each second is slow, but not stalled.
func TestASlowPartitionIsReady(t *testing.T) {
	stalling(t, func(t *testing.T, o *fakeOwner, s *node.Stalls, _ *logBook) {
		o.status.Waiting = 1000
		for range 100 {
			o.status.Stats.Durable++
			s.Wait(25 * time.Second)
			require.NoError(t, s.Of(0))
		}
	})
}
