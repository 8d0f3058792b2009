package supervisor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// An owner whose attempts run for long, and that has nothing to say, is woken by its ticks alone: it waits for no beat.
func TestAnOwnerWithNothingToSayHasNoBeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Shell{cfg: ShellConfig{Tick: 50 * time.Millisecond, Now: time.Now}, mail: newMailbox(), sent: new(sent)}
		s.clock = NewClock(time.Now())
		s.owner = &Owner{cfg: Config{}.withDefaults(), running: map[string]int{"a": 4}}
		require.Positive(t, s.owner.Pace())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.Run(ctx))
		require.False(t, s.beat.rests)
	})
}
