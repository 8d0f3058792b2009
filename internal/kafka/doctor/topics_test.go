package doctor

import (
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
)

// The embedded broker has no followers and always leads, so this test makes up the answers of a cluster.
func TestLaggingReplicasAndMissingLeadersAreReported(t *testing.T) {
	t.Parallel()
	specs := []kafka.TopicSpec{{Name: "t", Partitions: 4}}
	there := kadm.TopicDetails{"t": {Topic: "t", Partitions: kadm.PartitionDetails{
		0: {Partition: 0, Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}},
		1: {Partition: 1, Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}},
		2: {Partition: 2, Leader: 2, Replicas: []int32{1, 2, 3}, ISR: []int32{2}},
		3: {Partition: 3, Leader: -1, Replicas: []int32{3, 4}, ISR: []int32{3}},
	}}}
	e := examination{}
	e.inSync(specs, there, map[string]int{"t": 2})
	e.leaders(specs, there)
	require.Equal(t, []Finding{
		{Check: CheckReplicas, Status: StatusFail, later: true,
			What:   "fewer copies are in sync than min.insync.replicas, so appends are refused at present: t/2",
			Remedy: "start the brokers whose copies are behind: 1, 3"},
		{Check: CheckReplicas, Status: StatusWarn, What: "not all copies are in sync: t/1", Remedy: "start the brokers whose copies are behind: 3"},
		{Check: CheckReplicas, Status: StatusFail, passing: true, What: "no broker leads t/3", Remedy: "start the brokers that hold copies: 3, 4"},
	}, e.findings)

	e = examination{}
	e.inSync(specs[:1], kadm.TopicDetails{"t": {Partitions: kadm.PartitionDetails{0: there["t"].Partitions[0]}}}, nil)
	require.Equal(t, []Finding{{Check: CheckReplicas, Status: StatusOK, What: "all copies are in sync"}}, e.findings)
}

func TestALongListIsShortened(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a, b", shortened([]string{"a", "b"}))
	require.Equal(t, "a, b, c, d, e, f and 2 more", shortened([]string{"a", "b", "c", "d", "e", "f", "g", "h"}))
}
