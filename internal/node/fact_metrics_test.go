package node_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// An owner counts each of its facts, so that costs little: no name is looked up twice, and only buckets of native histograms take memory.
func TestCountingAFactAllocatesLittle(t *testing.T) {
	m, err := node.NewTaskMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	task := &events.Task{Workflow: "w", SubmittedAt: 1000, Steps: []*events.Step{{Path: "s", Agent: "a", Attempt: 1, StartedAt: 2000, EndedAt: 3000}}}
	begin := &events.Fact{Task: "t", Time: 2000, Body: &events.StepStarted{Step: "s", Agent: "a", Attempt: 1}}
	end := &events.Fact{Task: "t", Time: 3000, Body: &events.StepCompleted{Step: "s", Attempt: 1}}
	for fact, most := range map[*events.Fact]float64{begin: 1, end: 0} {
		require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { m.Count(task, fact) }), most)
	}
}
