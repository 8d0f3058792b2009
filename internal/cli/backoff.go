package cli

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/sagalog/sagalog/internal/pause"
)

// backoff is the pause before a call is repeated. It doubles from backoffFirst to backoffMost, with jitter, so that the
// clients of a restarted engine do not all call at once.
type backoff struct{ next time.Duration }

const (
	backoffFirst = 50 * time.Millisecond
	backoffMost  = 2 * time.Second
)

func (b *backoff) reset() { b.next = 0 }

func (b *backoff) pause(ctx context.Context) error {
	b.next = min(max(2*b.next, backoffFirst), backoffMost)
	if !pause.For(ctx, b.next/2+rand.N(b.next/2)) {
		return ctx.Err()
	}
	return nil
}

// isPassing reports whether the same call may succeed a little later: there was no answer, or the engine could not give one.
func isPassing(err error) bool {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Status >= http.StatusInternalServerError || p.Status == http.StatusRequestTimeout || p.Status == http.StatusTooManyRequests
	}
	if _, ok := errors.AsType[*foreign](err); ok {
		return false
	}
	return !errors.Is(err, context.Canceled)
}
