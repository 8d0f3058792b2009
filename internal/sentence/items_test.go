package sentence_test

import (
	"testing"

	"github.com/sagalog/sagalog/internal/sentence"
	"github.com/stretchr/testify/require"
)

func TestFanOutsAreSaid(t *testing.T) {
	t.Parallel()
	for data, says := range map[string]string{
		`{"step":"send","count":5000,"tolerate":1000,"collect":"none"}`: `step "send" begins its 5,000 items, of which 1,000 may fail`,
		`{"step":"send","count":1,"collect":"outputs"}`:                 `step "send" begins its item`,
		`{"step":"send","count":0,"collect":"outputs"}`:                 `step "send" has no items`,
	} {
		require.Equal(t, says, sentence.Of("FanOutStarted", []byte(data)))
	}
	require.Equal(t, "412 of 5,000 items are done, 3 failed, 20 running",
		sentence.Items(sentence.ItemCounts{All: 5000, Completed: 412, Failed: 3, Running: 20}))
	require.Equal(t, "0 of 7 items are done, 1 skipped, 2 undone, 4 left as they are", sentence.Items(sentence.ItemCounts{All: 7, Skipped: 1, Undone: 2, Left: 4}))
	require.Equal(t, "1,234,567", sentence.Number(1234567))
	require.Equal(t, "100", sentence.Number(100))
}
