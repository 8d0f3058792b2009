package events_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

func TestSealedValuesAreFoundWhereTheyAre(t *testing.T) {
	t.Parallel()
	s := events.Sealed{Key: "k1", Same: "s-_", Text: []byte{0, 255, 1}}
	value := string(s.Value())
	require.Equal(t, `{"$sealed":"k1.s-_.AP8B"}`, value)
	got, ok := events.ParseSealed([]byte(value))
	require.True(t, ok)
	require.Equal(t, s, got)
	for text, at := range map[string][2]int{
		value:                                 {0, len(value)},
		`[1,` + value + `,` + value + `]`:     {3, 3 + len(value)},
		`{"a":1}`:                             {-1, -1},
		`"{\"$sealed\":\"k1..AP8B\"}"`:        {-1, -1},
		`{"$sealed":"k1..AP8B","more":1}`:     {-1, -1},
		`{"$sealed":"not one"},` + value:      {22, 22 + len(value)},
		`[` + value[:len(value)-3]:            {1, -1},
		`[` + value[:len(value)-1]:            {1, -1},
		`{"$sealed":"` + value[:len(value)-1]: {12, -1},
	} {
		from, to := events.FindSealed([]byte(text))
		require.Equal(t, at, [2]int{from, to}, text)
	}
	for _, text := range []string{`{"$sealed":"k1.AP8B"}`, `{"$sealed":"..AP8B"}`, `{"$sealed":"k1..AP9"}`, `[` + value + `]`, ``} {
		_, ok := events.ParseSealed([]byte(text))
		require.False(t, ok, text)
	}
	require.Equal(t, 4, events.BeginsSealed([]byte(`[{"$s`)))
	require.Zero(t, events.BeginsSealed([]byte(`{"$sealed":"`)), "one has begun")
	require.JSONEq(t, `{"$erased":"2026-11-28"}`, string((&events.ErasedError{At: events.At(time.Date(2026, 11, 28, 23, 59, 0, 0, time.UTC))}).Value()))
}
