package doctor

import (
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
)

// Problems returns the settings that an audit refuses of a topic with the given number of copies, if a new topic would get replication.
func Problems(replication int, copies int32, values map[string]string) (settings []string) {
	a := &auditor{cluster: new(kafka.Cluster), replication: replication, insync: map[string]int{}}
	var replicas []int32
	for id := range copies {
		replicas = append(replicas, id)
	}
	t := kadm.TopicDetail{Topic: "t", Partitions: kadm.PartitionDetails{0: {Topic: "t", Replicas: replicas}}}
	a.topic(kafka.TopicSpec{Name: "t", Partitions: 1}, t, topicSettings{values: values})
	for _, p := range a.problems {
		settings = append(settings, p.Setting)
	}
	return settings
}
