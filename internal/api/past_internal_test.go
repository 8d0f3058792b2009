package api

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/events"
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

// carriedHistory is that of the task x in the log of a copy, which begins with its state.
type carriedHistory []LoggedFact

func (h carriedHistory) History(_ context.Context, _ string, from int64, _ int) (list []LoggedFact, err error) {
	for _, f := range h {
		if f.Record.Offset >= from {
			list = append(list, f)
		}
	}
	return list, nil
}

// Before its copy begins, a task was there already: the answer does not take the time of the copy for that of its submission.
func TestThePastOfACopiedTaskSaysWhenItWasSubmitted(t *testing.T) {
	t.Parallel()
	at := func(text string) events.Instant {
		i, err := events.ParseInstant(text)
		require.NoError(t, err)
		return i
	}
	old := events.NewState(0, nil)
	write := func(offset int64, f *events.Fact) {
		fate, err := old.Apply(f, offset)
		require.NoError(t, err)
		require.Equal(t, events.FateAccepted, fate)
	}
	write(0, &events.Fact{Time: at("2026-11-20T10:00:00Z"), Body: &events.PartitionClaimed{ID: "a", Owner: "n", Reader: events.FormatVersion}})
	write(1, &events.Fact{Epoch: events.Epoch{N: 1, ID: "a"}, Time: at("2026-11-20T10:00:01Z"), Task: "x", Body: &events.Submitted{Workflow: "w", Version: 1, Hash: "h", Content: "c"}})
	carried, err := events.CopiedTask(old, "x")
	require.NoError(t, err)
	var h carriedHistory
	for i := range carried {
		f := &events.Fact{Epoch: events.Epoch{N: 1, ID: "copy"}, Sequence: uint64(i), Time: at("2026-11-28T10:00:00Z"), Task: "x", Body: &carried[i]}
		r, err := events.EncodeFact(f, 0, "/sagalog/events")
		require.NoError(t, err)
		r.Offset = int64(40 + i)
		h = append(h, LoggedFact{Record: r})
	}
	p := newPast(h, documents{}, 1, logger{})
	for _, asked := range []string{"2026-11-27T00:00:00Z", "0@3"} {
		_, err = p.get(t.Context(), &TaskQuery{TaskPath: TaskPath{ID: "x"}, At: asked})
		require.Equal(t, http.StatusGone, asProblem(err).Status)
		require.Contains(t, asProblem(err).Detail, "was submitted at 2026-11-20T10:00:01.000Z, but this log has its facts only from 2026-11-28T10:00:00.000Z (0@40) on")
	}
}
