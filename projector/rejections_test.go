package projector_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

const firstRejection = events.Instant(1_795_269_600_000)

// rejected returns a delta with rejections of n submissions from offset on, all at one instant.
func rejected(offset int64, n int, at events.Instant) *events.Delta {
	d := &events.Delta{Next: 2 * (offset + int64(n)), Time: at}
	for i := range int64(n) {
		d.Rejected = append(d.Rejected, events.Rejection{Input: events.Submissions, Offset: offset + i, Fact: 2 * (offset + i), At: at})
	}
	return d
}

// found counts the rejections of the submissions below an offset that can be looked up.
func found(t *testing.T, s *projector.Store, below int64) (n int) {
	t.Helper()
	for offset := range below {
		fact, ok, err := s.Rejection(0, events.Submissions, offset)
		require.NoError(t, err)
		if ok {
			require.Equal(t, 2*offset, fact)
			n++
		}
	}
	return n
}

func TestARejectionIsFoundByTheInputsPlace(t *testing.T) {
	t.Parallel()
	s := setup(t)
	d := rejected(3, 1, firstRejection)
	d.Rejected = append(d.Rejected, events.Rejection{Input: events.Reports, Offset: 3, Fact: 7, At: firstRejection})
	commit(t, s, d)
	require.Equal(t, 1, found(t, s, 10))
	fact, ok, err := s.Rejection(0, events.Reports, 3)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 7, fact)
	_, ok, err = s.Rejection(1, events.Submissions, 3)
	require.NoError(t, err)
	require.False(t, ok, "another partition")
	require.NoError(t, s.CheckIndexes())
	require.NoError(t, s.Reset(0))
	require.Zero(t, found(t, s, 10))
}

// A row leaves an hour later. A commit deletes a bounded number of them, and the rows become fewer even while as many come.
func TestRejectionsExpireAFewACommit(t *testing.T) {
	t.Parallel()
	s := setup(t)
	hour := events.Instant(time.Hour.Milliseconds())
	commit(t, s, rejected(0, 1000, firstRejection))
	commit(t, s, rejected(1000, 1, firstRejection+hour))
	require.Equal(t, 1001, found(t, s, 2000), "an hour is not over")
	left := 1001
	for i := 1; left > 20; i++ {
		commit(t, s, rejected(1000+int64(i), 1, firstRejection+hour+events.Instant(i)))
		now := found(t, s, 2000)
		require.Less(t, now, left)
		require.GreaterOrEqual(t, now, left-65)
		require.Less(t, i, 100)
		left = now
	}
	require.NoError(t, s.CheckIndexes())
	_, ok, err := s.Rejection(0, events.Submissions, 1000)
	require.NoError(t, err)
	require.True(t, ok)
	commit(t, s, &events.Delta{Next: 5000, Time: firstRejection + 3*hour})
	require.Zero(t, found(t, s, 2000))
}

// The batch deletes what it does not show: rows that its first delta adds are still known when its last one expires others.
func TestRejectionsOfOneBatchAreNotForgotten(t *testing.T) {
	t.Parallel()
	s := setup(t)
	hour := events.Instant(time.Hour.Milliseconds())
	commit(t, s, rejected(0, 1, firstRejection))
	later := rejected(2, 1, firstRejection+2*hour)
	require.NoError(t, s.Commit(projector.Batch{Deltas: []*events.Delta{rejected(1, 1, firstRejection+hour), later}}))
	require.Equal(t, 2, found(t, s, 10))
	commit(t, s, &events.Delta{Next: 10, Time: firstRejection + 3*hour})
	require.Equal(t, 1, found(t, s, 10))
	commit(t, s, &events.Delta{Next: 11, Time: firstRejection + 4*hour})
	require.Zero(t, found(t, s, 10))
}
