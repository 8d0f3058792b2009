package repeats_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/internal/repeats"
	"github.com/stretchr/testify/require"
)

func TestAMessageThatRepeatsIsShownNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := repeats.Limited(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
		began := time.Now()
		for _, c := range []struct {
			msg   string
			after time.Duration
			shown string
		}{
			{"a", 0, "level=WARN msg=a agent=x n=1\n"},
			{"a", 1, ""},
			{"b", 1, "level=WARN msg=b agent=x n=1\n"},
			{"a", repeats.Every - 1, ""},
			{"a", repeats.Every, "level=WARN msg=a agent=x n=1 not_shown=2\n"},
			{"a", repeats.Every + 1, ""},
			{"a", 3 * repeats.Every, "level=WARN msg=a agent=x n=1 not_shown=1\n"},
		} {
			time.Sleep(time.Until(began.Add(c.after)))
			out.Reset()
			log.With("agent", "x").Warn(c.msg, "n", 1) // derived loggers share the memory
			require.Equal(t, c.shown, out.String(), "%+v", c)
		}
		out.Reset()
		log.Info("c")
		log.Info("c")
		require.Equal(t, "level=INFO msg=c\nlevel=INFO msg=c\n", out.String(), "only warnings are held back")
	})
}
