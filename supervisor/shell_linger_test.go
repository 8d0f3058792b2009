package supervisor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// An owner whose attempts run for long and that has nothing to decide is woken only by ticks: it does not linger.
func TestAnOwnerWithNothingToDecideDoesNotLinger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Shell{cfg: ShellConfig{Tick: 50 * time.Millisecond, Now: time.Now}, mailbox: newMailbox()}
		s.clock = NewClock(time.Now())
		o, err := NewOwner(Config{Partitions: 1, Node: "n", Entropy: func() (b [16]byte) { return b }}, nil, nil)
		require.NoError(t, err)
		o.dispatch.running = map[string]int{"a": 4}
		s.owner = o
		require.Positive(t, beatOf(s.owner))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.Run(ctx))
		require.False(t, s.linger.lingers)
	})
}
