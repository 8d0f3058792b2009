package supervisor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

func TestAShellSaysHowLongItsStepTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, err := NewOwner(Config{Partitions: 1, Node: "n", Entropy: func() (b [16]byte) { return b }}, nil, nil)
		require.NoError(t, err)
		s, err := NewShell(o, ShellConfig{Log: &sentLog{}, Committer: struct{ Committer }{}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()

		s.post(func(events.Instant) { time.Sleep(40 * time.Second) })
		time.Sleep(31 * time.Second)
		require.Equal(t, 31*time.Second, s.Busy())
		time.Sleep(10 * time.Second)
		require.Zero(t, s.Busy())
		cancel()
		require.NoError(t, <-ended)
	})
}
