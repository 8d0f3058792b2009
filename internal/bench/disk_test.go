package bench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestADiskThatFillsEndsTheRunAndIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := uint64(2 * leastFree)
		err := watchDisk(t.Context(), "/data", func(string) (uint64, error) { left -= leastFree / 4; return left, nil })
		for _, part := range []string{"/data", "TMPDIR", "--data"} {
			require.ErrorContains(t, err, part)
		}
	})
}

func TestAnUnknownDiskSizeEndsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		asked := 0
		require.NoError(t, watchDisk(ctx, "/data", func(string) (uint64, error) {
			if asked++; asked == 3 {
				stop()
			}
			return 0, errors.New("not here")
		}))
		require.Equal(t, 3, asked)
	})
}
