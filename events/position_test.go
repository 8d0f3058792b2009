package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

func TestEpochText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := events.Epoch{N: rapid.Uint64Min(1).Draw(t, "n"), ID: rapid.StringN(1, 20, -1).Draw(t, "id")}
		got, err := events.ParseEpoch(e.String())
		require.NoError(t, err)
		require.Equal(t, e, got)
		p := events.Position{Epoch: e, Sequence: rapid.Uint64().Draw(t, "sequence")}
		at, err := events.ParsePosition(p.String())
		require.NoError(t, err)
		require.Equal(t, p, at)
	})
	for _, bad := range []string{"", "-", "1-", "0-a", "-1-a", "x-a", "1", "+1-a"} {
		_, err := events.ParseEpoch(bad)
		require.Error(t, err, bad)
	}
	for _, bad := range []string{"", "/", "1-a", "1-a/", "1-a/-1", "0-a/1", "1-a/x"} {
		_, err := events.ParsePosition(bad)
		require.Error(t, err, bad)
	}
	var e events.Epoch
	require.NoError(t, e.UnmarshalText(nil))
	require.Zero(t, e)
	var p events.Position
	require.NoError(t, p.UnmarshalText(nil))
	require.True(t, p.IsZero())
	require.Empty(t, p.String())
}

func TestPositionOrder(t *testing.T) {
	t.Parallel()
	at := func(n, sequence uint64) events.Position {
		return events.Position{Epoch: events.Epoch{N: n, ID: "x"}, Sequence: sequence}
	}
	require.True(t, events.Position{}.Before(at(1, 0)))
	require.True(t, at(1, 9).Before(at(2, 0)))
	require.True(t, at(2, 0).Before(at(2, 1)))
	require.False(t, at(2, 1).Before(at(2, 1)))
	require.False(t, at(2, 0).Before(at(1, 9)))
}

func TestAnInputCauseNamesItsCoordinates(t *testing.T) {
	t.Parallel()
	for _, in := range []events.Input{events.Submissions, events.Reports} {
		got, partition, offset, ok := events.CauseInput(in, 7, 120).Input()
		require.True(t, ok)
		require.Equal(t, in, got)
		require.Equal(t, int32(7), partition)
		require.Equal(t, int64(120), offset)
	}
	require.EqualValues(t, "s/7/120", events.CauseInput(events.Submissions, 7, 120))
	require.EqualValues(t, "r/7/120", events.CauseInput(events.Reports, 7, 120))
	require.EqualValues(t, "d/5", events.CauseDefinition(5))
	require.EqualValues(t, "t/a%2Fb%20%25/1/pack%5B17%5D/2/complete_by", events.CauseTimer("a/b %", 1, "pack[17]", 2, events.TimerCompleteBy))
	require.EqualValues(t, "t/a/1//0/deadline", events.CauseTimer("a", 1, "", 0, events.TimerDeadline))
	p := events.Position{Epoch: events.Epoch{N: 2, ID: "b1"}, Sequence: 9}
	require.EqualValues(t, "f/2-b1/9", events.CauseFact(p))
	for _, c := range []events.Cause{"", "s", "s/1", "s/x/1", "s/1/x", "d/5", "f/2-b1/9", "t/a/1//0/deadline", "s/99999999999/1"} {
		_, _, _, ok := c.Input()
		require.False(t, ok, c)
	}
}
