package agent_test

import (
	"testing"

	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
)

// TestRealManyInstances is TestManyInstances on Apache Kafka. Without kafkatest.RealEnv it is skipped.
func TestRealManyInstances(t *testing.T) {
	t.Parallel()
	k := kafkatest.Up(t, kafkatest.Options{})
	t.Run("one broker", func(t *testing.T) {
		for name, behave := range crewBehaviours {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				behave(t, newCrew(t, k.Config("", "")))
			})
		}
	})
}
