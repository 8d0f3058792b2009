package kafka_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

// The steps of a start share one bound, also with a step that waits by itself.
func TestPatienceIsOneForAllSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &kafka.Patience{Within: time.Minute, Logger: slog.New(slog.DiscardHandler)}
		lent := func(takes time.Duration) (left time.Duration) {
			require.NoError(t, p.Lend(func(of time.Duration) error {
				left = of
				<-time.After(takes)
				return nil
			}))
			return left
		}
		away := func(context.Context) error { return context.DeadlineExceeded }
		require.Equal(t, time.Minute, lent(time.Millisecond))
		<-time.After(time.Hour)
		require.Equal(t, time.Minute, lent(40*time.Second), "a quick step has not used it")
		require.Equal(t, 20*time.Second, lent(0))
		begun := time.Now()
		require.ErrorContains(t, p.Try(t.Context(), away), "within 1m0s")
		require.Equal(t, 20*time.Second, time.Since(begun))
		require.ErrorContains(t, p.Try(t.Context(), away), "within 1m0s")
		require.Equal(t, 20*time.Second, time.Since(begun))
		require.Equal(t, time.Nanosecond, lent(0), "0 would be the default")
	})
}
