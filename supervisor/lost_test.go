package supervisor_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// losing returns an owner that has judged the submission of t1 at offset 0, and no longer finds t2 and t3 behind it, but t4 at 3.
func losing(t *testing.T) (*bench, *candidate) {
	t.Helper()
	b := newBench(t, oneStep)
	b.submit("t1", "one", "")
	a := b.candidate("A").own()
	a.run()
	a.hold["submissions"] = true
	for _, id := range []string{"t2", "t3", "t4"} {
		b.submit(id, "one", "")
	}
	return b, a
}

func (c *candidate) loseOnce(loss supervisor.Loss) {
	c.o.Lost(c.b.now, c.o.Status().Generation, supervisor.Topic(events.Submissions), loss, supervisor.ErrPosition)
	c.run()
}

// lose finds the same loss again if the owner claims the partition again because of it.
func (c *candidate) lose(loss supervisor.Loss) {
	began := c.o.Status().Generation
	c.loseOnce(loss)
	if c.stopped == nil && c.o.Status().Generation != began {
		c.own()
		c.loseOnce(loss)
	}
}

// docs/protocol.md, "Inputs that are lost".
func TestAnOwnerPassesOverALossThatAnOperatorAccepted(t *testing.T) {
	t.Parallel()
	for name, accepted := range map[string]events.AcceptedLoss{
		"exactly": {From: 1, To: 3},
		"as seen before the last facts were known": {From: 0, To: 3},
		"some records exist again":                 {From: 1, To: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, a := losing(t)
			accepted.Input, accepted.Reason, accepted.By = events.Submissions, "retention", "ada"
			a.lose(supervisor.Loss{Start: 3, Accepted: &accepted, Offset: 17})
			require.NoError(t, a.stopped)
			a.hold["submissions"] = false
			a.run()
			var found []*events.Fact
			_, facts, _ := b.read()
			for _, f := range facts {
				if _, ok := f.Body.(*events.InputLossAccepted); ok {
					found = append(found, f)
				}
			}
			require.Len(t, found, 1)
			require.Equal(t, &events.InputLossAccepted{Input: events.Submissions, From: 1, To: 3, Offset: 17, Reason: "retention", By: "ada"}, found[0].Body)
			require.Equal(t, events.CauseDefinition(17), found[0].Cause)
			b.task("t4")
			s, _, _ := b.read()
			require.Equal(t, int64(4), s.Partition.Inputs[events.Submissions].Next)
			task, err := s.Task("t2")
			require.NoError(t, err)
			require.Nil(t, task)
			for range 10 { // t1's reports never come: its time passes
				a.pass(time.Second)
			}
			require.Equal(t, events.TaskStateError, b.task("t1").State)
			a.restart()
			a.own()
			require.NoError(t, a.stopped)
		})
	}
}

// The input begins at the resume point, and still cannot be read: giving it up again would change nothing, without end.
func TestALossIsGivenUpOnce(t *testing.T) {
	t.Parallel()
	b, a := losing(t)
	loss := supervisor.Loss{Start: 3, Accepted: &events.AcceptedLoss{Input: events.Submissions, From: 1, To: 3}, Offset: 17}
	a.lose(loss)
	require.NoError(t, a.stopped)
	a.lose(loss)
	require.ErrorIs(t, a.stopped, supervisor.ErrInputLost)
	n := 0
	for _, name := range b.names() {
		if name == string((&events.InputLossAccepted{}).Name()) {
			n++
		}
	}
	require.Equal(t, 1, n)
}

func TestALossThatNobodyAcceptedStopsThePartition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		loss supervisor.Loss
		says string
	}{
		"nothing was accepted":                    {supervisor.Loss{Start: 3}, ""},
		"less was accepted":                       {supervisor.Loss{Start: 3, Accepted: &events.AcceptedLoss{From: 1, To: 2}}, "(the accepted loss of the offsets from 1 to before 2 does not cover it)"},
		"what comes later was accepted":           {supervisor.Loss{Start: 3, Accepted: &events.AcceptedLoss{From: 2, To: 3}}, "does not cover it"},
		"an earlier loss was accepted":            {supervisor.Loss{Start: 3, Accepted: &events.AcceptedLoss{From: 0, To: 1}}, ""},
		"nothing is lost of what is not judged":   {supervisor.Loss{Start: 0, Accepted: &events.AcceptedLoss{From: 0, To: 3}}, "does not cover it"},
		"no record, but that was not accepted":    {supervisor.Loss{Start: 1}, ""},
		"more was lost after it was accepted":     {supervisor.Loss{Start: 4, Accepted: &events.AcceptedLoss{From: 1, To: 3}}, "does not cover it"},
		"the broker does not say where it begins": {supervisor.Loss{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, a := losing(t)
			a.lose(c.loss)
			require.ErrorIs(t, a.stopped, supervisor.ErrInputLost)
			require.ErrorContains(t, a.stopped, c.says)
			if c.says == "" {
				require.NotContains(t, a.stopped.Error(), "cover")
			}
			require.Zero(t, count[*events.InputLossAccepted](b))
		})
	}
}

// What the owner has read and not judged yet still counts. It reads again from the fold.
func TestALossBehindInputsThatWaitIsNotPassedOver(t *testing.T) {
	t.Parallel()
	b, a := losing(t)
	a.hold["Append"] = true
	b.submit("t5", "one", "")
	a.o.Input(b.now, a.o.Status().Generation, events.Submissions, b.inputs[events.Submissions][1:2], 2)
	began := a.o.Status().Generation
	a.loseOnce(supervisor.Loss{Start: 3, Accepted: &events.AcceptedLoss{From: 1, To: 3}})
	require.Greater(t, a.o.Status().Generation, began)
	require.Zero(t, count[*events.InputLossAccepted](b))
}

// A timer waits for reports and submissions that are lost. When both are given up, nothing is left to wait for.
func TestTimersGoOnBehindALoss(t *testing.T) {
	t.Parallel()
	b, a := losing(t)
	a.hold["reports"] = true
	b.done("t1", "only", 1)
	a.pass(1100 * time.Millisecond)
	require.Zero(t, count[*events.Timeout](b), "the report may have come in time")
	a.lose(supervisor.Loss{Start: 4, Accepted: &events.AcceptedLoss{From: 1, To: 4}, Offset: 17})
	a.o.Lost(b.now, a.o.Status().Generation, supervisor.Topic(events.Reports), supervisor.Loss{Start: 1, Accepted: &events.AcceptedLoss{From: 0, To: 1}, Offset: 18}, supervisor.ErrPosition)
	a.run()
	for range 3 {
		a.pass(100 * time.Millisecond)
	}
	require.NoError(t, a.stopped)
	require.Equal(t, 2, count[*events.InputLossAccepted](b))
	require.Equal(t, 1, count[*events.Timeout](b))
}
