package api

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slowHistory answers when it is released.
type slowHistory struct {
	released chan struct{}
}

func (h slowHistory) History(ctx context.Context, _ string, _ int64, _ int) ([]LoggedFact, error) {
	select {
	case <-h.released:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A past that cannot be read ends in time, and before another node would give the owner up.
func TestAPastThatTakesTooLongSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPast(slowHistory{make(chan struct{})}, documents{}, 1, logger{})
		begun := time.Now()
		_, err := p.get(t.Context(), &TaskQuery{TaskPath: TaskPath{ID: "x"}, At: "0@1"})
		require.Equal(t, http.StatusServiceUnavailable, asProblem(err).Status)
		require.Contains(t, asProblem(err).Detail, "could not be read from the log within 30s")
		require.Equal(t, pastWithin, time.Since(begun))
		require.Less(t, pastWait+pastWithin, pastAnswer)
	})
}

// Few pasts are read at the same time; another one waits for its turn, and not for long.
func TestFewPastsAreReadAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := slowHistory{make(chan struct{})}
		p := newPast(h, documents{}, 1, logger{})
		read := func() int {
			_, err := p.get(t.Context(), &TaskQuery{TaskPath: TaskPath{ID: "x"}, At: "0@1"})
			return asProblem(err).Status
		}
		var readers sync.WaitGroup
		for range pastsAtOnce {
			readers.Go(func() { require.Equal(t, http.StatusNotFound, read()) })
		}
		synctest.Wait()
		require.Equal(t, http.StatusServiceUnavailable, read())
		close(h.released)
		readers.Wait()
		require.Equal(t, http.StatusNotFound, read())
	})
}
