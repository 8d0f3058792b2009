package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/pause"
)

func TestPauseWaitsForTheDurationOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.True(t, pause.For(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.False(t, pause.For(ctx, time.Hour))
		require.Equal(t, time.Minute+time.Second, time.Since(began))
	})
}
