package events_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// paced is a log in which a limit of ten permits a minute has given as many as it may at once.
func paced(t *testing.T) (*scribe, *events.Limit) {
	w := newScribe(t)
	w.claim("c1", "")
	w.write("", &events.LimitAdopted{Limit: "limit/bank", Offset: 20, Rate: "10/m"}, cause(events.CauseDefinition(20)))
	w.given(1)
	l := w.state.Limits.Get("limit/bank")
	require.Zero(t, l.Free(w.now))
	require.Equal(t, l.PacedFrom.Add(6*time.Second-events.RateSlack), l.OpensAt())
	return w, l
}

// given writes that a limit gives a permit, and gets it back.
func (w *scribe) given(n int) {
	ask := &events.PermitAsked{Limit: "limit/bank", Link: events.Link{Task: "banked-9", Incarnation: "2-9f0c/3", Run: 1, N: n, Path: "charge", Operation: events.Do}}
	w.write("", &events.PermitsDecided{Limit: ask.Limit, Asked: ask, Granted: &ask.Link})
	w.write("", &events.PermitsDecided{Limit: ask.Limit, Released: &ask.Link})
}

func TestARate(t *testing.T) {
	t.Run("is refused if it is not one", func(t *testing.T) {
		w, _ := paced(t)
		w.refused("", &events.LimitAdopted{Limit: "limit/bank", Offset: 21, Rate: "fast"})
	})
	t.Run("gives no permit before it is due", func(t *testing.T) {
		w, _ := paced(t)
		ask := &events.PermitAsked{Limit: "limit/bank", Link: events.Link{Task: "banked-8", Incarnation: "i", Run: 1, N: 1, Path: "charge", Operation: events.Do}}
		w.refused("", &events.PermitsDecided{Limit: ask.Limit, Asked: ask, Granted: &ask.Link})
	})
	t.Run("counts a permit that is given early from the instant at which it was due", func(t *testing.T) {
		w, l := paced(t)
		due := l.OpensAt().Add(events.RateSlack)
		w.now = l.OpensAt() - w.step // the next fact's time
		w.given(2)
		require.Equal(t, due.Add(6*time.Second-events.RateSlack), l.OpensAt())
	})
	t.Run("starts from the next permit when no permit was given for long", func(t *testing.T) {
		w, l := paced(t)
		w.now = w.now.Add(time.Hour)
		at := w.now + w.step
		w.given(2)
		require.Equal(t, at, l.PacedFrom)
		require.Zero(t, l.Free(w.now), "the hour gives no right to many at once")
	})
	t.Run("of another object holds at once", func(t *testing.T) {
		w, l := paced(t)
		w.write("", &events.LimitAdopted{Limit: "limit/bank", Offset: 21, Rate: "10/s"}, cause(events.CauseDefinition(21)))
		require.Equal(t, w.state.Partition.Time.Add(100*time.Millisecond-events.RateSlack), l.OpensAt())
	})
	t.Run("that is slower does not forget the permits before it", func(t *testing.T) {
		w, l := paced(t)
		opens := l.OpensAt()
		w.write("", &events.LimitAdopted{Limit: "limit/bank", Offset: 21, Rate: "1/h"}, cause(events.CauseDefinition(21)))
		require.Equal(t, opens, l.OpensAt())
	})
	t.Run("waits for no instant of a wrong clock", func(t *testing.T) {
		w, l := paced(t)
		right := w.state.Partition.Time
		w.now = w.now.Add(48 * time.Hour)
		w.given(2)
		w.claim("c2", "c1")
		w.now = right - w.step
		w.write("", &events.TimeCorrected{To: right})
		require.Equal(t, right.Add(6*time.Second-events.RateSlack), l.OpensAt())
	})
}
