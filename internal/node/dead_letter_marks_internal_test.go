package node

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// The latest mark of a dead letter counts, one that is taken back is forgotten, and of too many the oldest are forgotten.
func TestMarksOfDeadLettersAreBounded(t *testing.T) {
	t.Parallel()
	const most = 1000
	c := letterMarks{most: most}
	apply := func(m events.DeadLetterMark) {
		r, err := scheduler.EncodeMark(&m, events.Subject{ID: "1", Source: "/test"})
		require.NoError(t, err)
		c.record(&r)
	}
	letter := func(i int) string { return fmt.Sprint("submissions-0-", i) }
	apply(events.DeadLetterMark{Mark: events.MarkRedriven})
	apply(events.DeadLetterMark{Letter: letter(0), Mark: "burnt"})
	_, ok := c.of(letter(0))
	require.False(t, ok)
	for range 3 { // that each is marked again counts for nothing
		for i := range most {
			apply(events.DeadLetterMark{Letter: letter(i), Mark: events.MarkDismissed})
		}
	}
	apply(events.DeadLetterMark{Letter: letter(0), Mark: events.MarkRedriven, Task: "o-1", By: "ada"})
	m, ok := c.of(letter(0))
	require.True(t, ok)
	require.Equal(t, "o-1", m.Task)
	apply(events.DeadLetterMark{Letter: "reports-1-2", Mark: events.MarkDismissed})
	for l, want := range map[string]bool{letter(0): true, letter(1): false, letter(2): true, letter(most - 1): true, "reports-1-2": true} {
		_, ok := c.of(l)
		require.Equal(t, want, ok, l)
	}
	for range 2*most + 5 { // one letter that is marked again and again makes no other forgotten
		apply(events.DeadLetterMark{Letter: letter(2), Mark: events.MarkDismissed})
	}
	for l, want := range map[string]bool{letter(2): true, letter(3): true, letter(most - 1): true, "reports-1-2": true} {
		_, ok := c.of(l)
		require.Equal(t, want, ok, l)
	}
	apply(events.DeadLetterMark{Letter: "reports-1-2"})
	_, ok = c.of("reports-1-2")
	require.False(t, ok)
}
