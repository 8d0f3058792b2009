package verify

import (
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// Only the dead letter of an input that does not fit may be cut, and only to what is left of that input.
func TestOnlyALargeInputMayHaveACutDeadLetter(t *testing.T) {
	t.Parallel()
	letter := func(r events.Record, cut bool) *deadLetter {
		return &deadLetter{sum: printBytes(&r, append(r.Headers, events.Header{Key: "sagalog-cut"})), cut: cut, cutSum: printBytes(&r, r.Headers)}
	}
	small := events.Record{Key: []byte("k"), Value: []byte(strings.Repeat("v", 1<<20))}
	large := events.Record{Key: []byte("k"), Value: []byte(strings.Repeat("v", 9<<20))}
	prefix := events.Record{Key: []byte("k"), Value: large.Value[:64<<10]}
	other := events.Record{Key: []byte("k"), Value: []byte(strings.Repeat("w", 64<<10))}
	require.True(t, printInput(&large).matches(letter(prefix, true)))
	require.True(t, printInput(&large).matches(letter(events.Record{}, true)))
	require.False(t, printInput(&large).matches(letter(prefix, false)))
	require.False(t, printInput(&large).matches(letter(other, true)))
	require.False(t, printInput(&small).matches(letter(prefix, true)))
	require.True(t, printInput(&small).matches(letter(events.Record{}, true)), "its topic may take less than usual")
	require.False(t, printInput(&small).matches(letter(events.Record{}, false)))
}
