package supervisor_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// However many cancels overtake a task, the first makes it turn back, and one plan refuses all others.
func TestManyCancelsOvertakeTheirTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	const many = 2300
	for i := range many {
		b.request(events.RequestCancel, fmt.Sprint("q", i), "t1")
	}
	a.run()
	b.submit("t1", "one", "")
	a.run()
	require.Equal(t, events.TaskStateUndone, b.task("t1").State)
	require.Equal(t, many-1, count[*events.RequestRefused](b))
	require.EqualValues(t, 1, a.o.Status().Stats.Epochs)
	sameEverywhere(t, b, a)
}
