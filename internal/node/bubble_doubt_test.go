//go:build synctests

package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// A broker that has just become the leader may not know a topic yet. That does not mean that the topic was recreated.
// The owner compares the topic's ID, finds that it is the same, and continues to read.
func TestFaultATopicUnknownForAWhileIsReadOn(t *testing.T) {
	for _, topic := range []string{"sagalog.submissions", "sagalog.reports"} {
		t.Run(topic, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, brokers := setupFake(t, 1, 1)
				f := begin(w, 1)
				f.watch.ended(f.work("before", 2)...)
				const refused = 20 // the client hides the first ones
				fault := brokers.Fault(kafkatest.Fault{Request: "Fetch", Topic: topic, Code: "UNKNOWN_TOPIC_ID", Count: refused})
				for i := 0; fault.Hits() < refused; i++ {
					require.Less(t, i, 300, "the owner continues to read")
					require.Empty(t, w.logs.find("the partition stopped"))
					f.work(fmt.Sprintf("x-%d", i), 1)
					<-time.After(time.Second)
				}
				f.quick("after", 10*time.Second)
				require.Empty(t, w.logs.find("the partition stopped"))
				f.prove()
			})
		})
	}
}
