package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAMessageThatRepeatsIsShownNowAndThen(t *testing.T) {
	t.Parallel()
	r := newClientLog(nil).same
	now := time.Now()
	shown := func(msg string, after time.Duration) (int, bool) { return r.due(msg, now.Add(after)) }
	for _, c := range []struct {
		msg   string
		after time.Duration
		held  int
		due   bool
	}{
		{"a", 0, 0, true}, {"a", 1, 0, false}, {"b", 1, 0, true}, {"a", sameEvery - 1, 0, false},
		{"a", sameEvery, 2, true}, {"a", sameEvery + 1, 0, false}, {"a", 3 * sameEvery, 1, true},
	} {
		held, due := shown(c.msg, c.after)
		require.Equal(t, c.held, held, "%+v", c)
		require.Equal(t, c.due, due, "%+v", c)
	}
}
