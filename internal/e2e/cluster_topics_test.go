package e2e

import (
	"testing"

	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// What differs from the embedded broker: offsets go on behind a topic that was trimmed to its end, and the topic's last
// record that was judged is gone all the same.
func TestClusterTrimmedAndMadeAnewTopics(t *testing.T) {
	r := newRigOn(t, kafkatest.Up(t, kafkatest.Options{}).Bootstrap())
	one := r.node("n1")
	one.start()
	r.deliver(one, "a-", 20)
	one.stop()
	r.trim(topics.Submissions(), 1)
	r.trim(topics.Reports(), 1)
	one.start() // trimmed as the engine itself would
	r.deliver(one, "b-", 20)
	for topic, n := range map[string]int32{topics.Work("package"): 4, topics.Presence(): 1} {
		one.stop()
		r.recreate(topic, n)
		one.start()
	}
	r.deliver(one, "c-", 20)
	r.trim(topics.Events(), 0) // all of it is folded here
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
	require.Equal(t, ends[0], end, "a Kafka goes on where it was")
	one.stop()
	r.recreate(topics.Events(), 4)
	require.Contains(t, one.refused(), "accepted facts are gone")
}
