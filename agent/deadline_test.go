package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type contextKey struct{}

// To a function, a deadline behaves exactly like context.WithDeadlineCause, whenever the function looks at it.
func TestADeadlineIsAContext(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		by    time.Duration
		act   func(d *deadline, kill context.CancelCauseFunc)
		err   error
		cause error
	}{
		"in time":        {time.Second, func(*deadline, context.CancelCauseFunc) {}, nil, nil},
		"time is over":   {time.Second, func(*deadline, context.CancelCauseFunc) { wait(time.Second) }, context.DeadlineExceeded, ErrCompleteBy},
		"cut off":        {time.Second, func(_ *deadline, kill context.CancelCauseFunc) { kill(ErrStopped) }, context.Canceled, ErrStopped},
		"returned":       {time.Second, func(d *deadline, _ context.CancelCauseFunc) { d.end() }, context.Canceled, context.Canceled},
		"was over":       {-time.Second, func(*deadline, context.CancelCauseFunc) {}, context.DeadlineExceeded, ErrCompleteBy},
		"over and ended": {time.Second, func(d *deadline, _ context.CancelCauseFunc) { wait(time.Second); d.end() }, nil, nil},
	} {
		for _, looked := range []string{"", "before", "child"} {
			t.Run(name+" "+looked, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					parent, kill := context.WithCancelCause(context.WithValue(t.Context(), contextKey{}, "value"))
					defer kill(nil)
					by := time.Now().Add(end.by)
					d := &deadline{parent: parent, by: by}
					var ctx context.Context = d
					switch looked {
					case "before":
						d.Done()
					case "child":
						child, cancel := context.WithTimeout(d, time.Hour)
						defer cancel()
						ctx = child
					}
					end.act(d, kill)
					synctest.Wait()
					at, ok := ctx.Deadline()
					require.True(t, ok && at.Equal(by))
					require.Equal(t, "value", ctx.Value(contextKey{}))
					if name == "over and ended" {
						require.Error(t, ctx.Err())
						require.Error(t, context.Cause(ctx))
						return
					}
					require.Equal(t, end.err, ctx.Err())
					require.Equal(t, end.cause, context.Cause(ctx))
					select {
					case <-ctx.Done():
						require.Error(t, end.err)
					default:
						require.NoError(t, end.err)
					}
					d.end()
					synctest.Wait()
					require.Error(t, ctx.Err())
					<-ctx.Done()
				})
			})
		}
	}
}

func wait(d time.Duration) { <-time.After(d) }
