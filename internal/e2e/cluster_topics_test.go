package e2e

import (
	"testing"

	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// Apache Kafka differs from the embedded broker: offsets continue after a topic was trimmed to its end, although its
// last judged record is gone.
func TestClusterTopicsTrimmedAndRecreated(t *testing.T) {
	besideOthers(t)
	r := newRigOn(t, kafkatest.Up(t, kafkatest.Options{}).Bootstrap())
	one := r.node("n1")
	one.start()
	r.deliver(one, "a-", 20)
	one.stop()
	r.trim(topics.Submissions(), 1)
	r.trim(topics.Reports(), 1)
	one.start() // trimmed as the engine itself would do it
	r.deliver(one, "b-", 20)
	for topic, n := range map[string]int32{topics.Work("package"): 4, topics.Presence(): 1} {
		one.stop()
		r.recreate(topic, n)
		one.start()
	}
	r.deliver(one, "c-", 20)
	r.trim(topics.Events(), 0) // this node has folded the whole log
	l := r.deliver(one, "d-", 20)
	require.Equal(t, "processed", one.settled(l.id(20)).State)
	fresh := r.node("n2")
	require.Contains(t, fresh.refused(), "accepted facts are gone")

	ends := r.trim(topics.Submissions(), 0)
	one.stop()
	one.launch()
	one.says("level=ERROR", "no longer holds the record that was judged last", "submissions")
	end, err := r.conn().EndOffset(r.patiently(), topics.Submissions(), 0)
	require.NoError(t, err)
	require.Equal(t, ends[0], end, "Apache Kafka continues its offsets")
	one.stop()
	r.recreate(topics.Events(), 4)
	require.Contains(t, one.refused(), "accepted facts are gone")
}
