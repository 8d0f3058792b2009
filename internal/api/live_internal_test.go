package api

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Clients choose their filters: a frame does not keep a text for each of them.
func TestAFrameKeepsFewTexts(t *testing.T) {
	t.Parallel()
	f := &frame{to: liveCursor{7}, tasks: []changedTask{{message: []byte(`{}`)}}}
	for i := range 100 {
		filter := newLiveFilter([]string{topicTasks}, Query{Since: 0, Labels: map[string]string{"n": fmt.Sprint(i)}}, nil)
		f.tasks[0].Task.Labels = map[string]string{"n": fmt.Sprint(i)}
		for range 2 {
			require.Equal(t, "id: 7\nevent: task\ndata: {}\n\n", f.render(&filter))
		}
	}
	require.LessOrEqual(t, len(f.rendered), renderedTexts)
}
