package cli

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// backoff is the pause before a call is made again: it doubles from backoffFirst to backoffMost, with jitter, so that
// the clients of a restarted engine do not come all at once.
type backoff struct{ next time.Duration }

const (
	backoffFirst = 50 * time.Millisecond
	backoffMost  = 2 * time.Second
)

func (b *backoff) reset() { b.next = 0 }

func (b *backoff) pause(ctx context.Context) error {
	b.next = min(max(2*b.next, backoffFirst), backoffMost)
	t := time.NewTimer(b.next/2 + rand.N(b.next/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isPassing says whether the same call may succeed a little later: nobody answered, or the engine could not.
func isPassing(err error) bool {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Status >= http.StatusInternalServerError || p.Status == http.StatusRequestTimeout || p.Status == http.StatusTooManyRequests
	}
	return !errors.Is(err, context.Canceled)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
