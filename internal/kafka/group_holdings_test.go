package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMarkMovesBackToTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	mark := func(next int64) Mark { return Mark{Assignment: 1, Next: next, Metadata: "m"} }
	bare := func(next int64) Mark { return Mark{Assignment: 1, Next: next} }
	for name, c := range map[string]struct {
		found holding
		from  int64
		lost  bool
		want  holding
	}{
		"nothing is lost": {holding{mark: mark(5), shared: 5}, 0, false, holding{mark: mark(5), shared: 5}},
		"the log ends before the mark": {
			holding{mark: mark(5), shared: 3}, 0, false, holding{mark: bare(3), shared: 5, lost: true, lostFrom: 3},
		},
		"it was replaced from an offset below the mark": {
			holding{mark: mark(5), shared: 9}, 2, true, holding{mark: bare(2), shared: 9, lost: true, lostFrom: 2},
		},
		"it was replaced from an offset above the mark": {
			holding{mark: mark(5), shared: 9}, 7, true, holding{mark: mark(5), shared: 9, lost: true, lostFrom: 7},
		},
		"more is known than is visible": {
			holding{mark: mark(5), shared: 3}, 1, true, holding{mark: bare(1), shared: 5, lost: true, lostFrom: 1},
		},
		"more is visible than is known": {
			holding{mark: mark(5), shared: 3}, 4, true, holding{mark: bare(3), shared: 5, lost: true, lostFrom: 3},
		},
	} {
		require.Equal(t, c.want, c.found.without(c.from, c.lost), name)
	}
}
