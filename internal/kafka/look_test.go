package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
)

// The embedded broker has neither followers nor partitions without a leader, so this looks at what a cluster would tell.
func TestCopiesThatAreBehindAndPartitionsWithoutALeaderAreTold(t *testing.T) {
	t.Parallel()
	specs := []TopicSpec{{Name: "t", Partitions: 4}}
	there := kadm.TopicDetails{"t": {Topic: "t", Partitions: kadm.PartitionDetails{
		0: {Partition: 0, Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}},
		1: {Partition: 1, Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}},
		2: {Partition: 2, Leader: 2, Replicas: []int32{1, 2, 3}, ISR: []int32{2}},
		3: {Partition: 3, Leader: -1, Replicas: []int32{3, 4}, ISR: []int32{3}},
	}}}
	l := look{}
	l.inSync(specs, there, map[string]int{"t": 2})
	l.leaders(specs, there)
	require.Equal(t, []Finding{
		{Check: CheckReplicas, Status: StatusFail, later: true,
			What:   "fewer copies are in sync than min.insync.replicas, so appends are refused at present: t/2",
			Remedy: "start the brokers whose copies are behind: 1, 3"},
		{Check: CheckReplicas, Status: StatusWarn, What: "not all copies are in sync: t/1", Remedy: "start the brokers whose copies are behind: 3"},
		{Check: CheckReplicas, Status: StatusFail, passing: true, What: "nobody leads t/3", Remedy: "start the brokers that hold copies: 3, 4"},
	}, l.findings)

	l = look{}
	l.inSync(specs[:1], kadm.TopicDetails{"t": {Partitions: kadm.PartitionDetails{0: there["t"].Partitions[0]}}}, nil)
	require.Equal(t, []Finding{{Check: CheckReplicas, Status: StatusOK, What: "all copies are in sync"}}, l.findings)
}

func TestALongListIsShortened(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a, b", shortened([]string{"a", "b"}))
	require.Equal(t, "a, b, c, d, e, f and 2 more", shortened([]string{"a", "b", "c", "d", "e", "f", "g", "h"}))
}
