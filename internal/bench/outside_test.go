package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// Without the counts of the agents outside there is no proof, so the run fails.
func TestARunEndsWhenItsAgentsOutsideDo(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{"false": "exit status 1", "true": "exit status 0"} {
		c := small(t)
		c.Duration, c.Drain, c.Agents, c.Program = time.Hour, time.Hour, AgentsOutside, program
		_, err := Tasks(t.Context(), &TasksConfig{Config: c, Outstanding: 5})
		require.ErrorContains(t, err, "the agents outside")
		require.ErrorContains(t, err, want)
	}
}

func TestARunWithAgentsElsewhereSaysHowToStartThem(t *testing.T) {
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	cluster, err := kafka.Connect(broker.ClusterConfig())
	require.NoError(t, err)
	defer cluster.Close()
	elsewhere := &system{cfg: &Config{Agents: AgentsRunning, Namespace: "try"}, cluster: cluster}
	require.Contains(t, elsewhere.nothing(), "`sagalog bench agents --brokers "+broker.Addr()+" --namespace try`")
	inside := &system{cfg: &Config{Agents: AgentsInside}, cluster: cluster}
	require.Equal(t, "nothing came back", inside.nothing())

	unfinished, lost := &Verdict{Unfinished: 1}, &Verdict{Lost: 1}
	require.ErrorContains(t, elsewhere.withCause(unfinished), "the agents, which run elsewhere, may have ended")
	require.Equal(t, lost.Err(), elsewhere.withCause(lost))
	require.Equal(t, unfinished.Err(), inside.withCause(unfinished))
	require.NoError(t, errors.Join(elsewhere.withCause(nil), elsewhere.withCause(new(Verdict))))
}
