package api_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

type letters struct {
	DeadLetters []struct {
		Key string `json:"key"`
	} `json:"dead_letters"`
	Next    string                 `json:"next"`
	Missing []api.MissingPartition `json:"missing"`
}

func (w *world) letters(query string) (page letters, keys []string) {
	w.t.Helper()
	r := w.do("GET", "/v1/dead-letters?"+query, "")
	require.Equal(w.t, 200, r.status, r.body)
	require.NoError(w.t, json.Unmarshal([]byte(r.body), &page))
	for _, d := range page.DeadLetters {
		keys = append(keys, d.Key)
	}
	return page, keys
}

// The brokers of some partitions are away, from the beginning or from the middle of a walk. The others are answered, and the
// walk continues where it was when they are back.
func TestDeadLettersOfOtherPartitionsAreAnswered(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 12 {
		w.engine.Bury(events.Submissions, events.Record{Partition: int32(i % 4), Key: fmt.Appendf(nil, "k%d", i)}, "why")
	}
	gone := func(p int32) api.MissingPartition {
		return api.MissingPartition{Partition: p, Input: "submissions", Reason: "unavailable"}
	}
	w.engine.Cut(events.Submissions, 1)
	page, keys := w.letters("limit=4")
	require.Equal(t, []string{"k11", "k10", "k8", "k7"}, keys)
	require.Equal(t, []api.MissingPartition{gone(1)}, page.Missing)

	w.engine.Cut(events.Submissions, 0, 2)
	page, keys = w.letters("limit=3&cursor=" + page.Next)
	require.Equal(t, []string{"k9", "k5", "k3"}, keys)
	require.Equal(t, []api.MissingPartition{gone(0), gone(2)}, page.Missing)

	w.engine.Cut(events.Submissions)
	rest, keys := w.letters("cursor=" + page.Next)
	require.Equal(t, []string{"k6", "k4", "k2", "k1", "k0"}, keys)
	require.Empty(t, rest.Missing)
	require.Empty(t, rest.Next)

	w.engine.Cut(events.Submissions, 0, 1, 2, 3)
	r := w.do("GET", "/v1/dead-letters?cursor="+page.Next, "")
	require.Equal(t, 503, r.status, "only missing partitions are left")
	require.Equal(t, "1", r.header.Get("Retry-After"))

	w.engine.Cut(events.Submissions)
	w.engine.CutNext()
	page, keys = w.letters("")
	require.Len(t, keys, 9, "one partition has left after its range was known")
	require.Len(t, page.Missing, 1)
	w.engine.Cut(events.Submissions)
	_, keys = w.letters("cursor=" + page.Next)
	require.Len(t, keys, 3)
}

// Each command that asks for a task that is not known looks for a dead letter with its ID. It must not read them all.
func TestALookByKeyReadsABoundedNumberOfDeadLetters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ buried, size, most, pages int }{
		"many":  {buried: 10_000, size: 10, most: 4_000, pages: 3},
		"large": {buried: 100, size: 256 << 10, most: 40, pages: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.engine.Bury(events.Submissions, events.Record{Partition: 1, Key: []byte("lost")}, "why")
			for i := range c.buried {
				w.engine.Bury(events.Submissions, events.Record{Partition: int32(i % 4), Key: []byte("k"), Value: make([]byte, c.size)}, "why")
			}
			page, keys := w.letters("key=lost&limit=1")
			require.Empty(t, keys)
			require.LessOrEqual(t, w.engine.LettersRead(), c.most)
			pages := 1
			for ; len(keys) == 0; pages++ {
				require.NotEmpty(t, page.Next, "the walk goes on to the end")
				page, keys = w.letters("key=lost&limit=1&cursor=" + page.Next)
			}
			require.Equal(t, []string{"lost"}, keys)
			require.GreaterOrEqual(t, pages, c.pages)
		})
	}
}
