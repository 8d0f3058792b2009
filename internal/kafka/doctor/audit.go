package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Audit returns an *AuditError that names every setting that could lose facts or that makes the brokers refuse appends, and every changed
// number of partitions, because the records of a task would then go to another partition. It changes nothing.
func Audit(ctx context.Context, c *kafka.Cluster, specs ...kafka.TopicSpec) error {
	_, err := Inspect(ctx, c, specs...)
	return err
}

func audit(ctx context.Context, c *kafka.Cluster, specs []kafka.TopicSpec) (*auditor, error) {
	rf, err := c.ReplicationFactor(ctx)
	if err != nil {
		return nil, err
	}
	there, err := c.DescribeVisible(ctx, specs)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	configs, err := describeSettings(ctx, c, kafka.TopicNames(specs))
	if err != nil {
		return nil, fmt.Errorf("describe topic settings: %w", err)
	}
	a := &auditor{cluster: c, replication: int(rf), insync: map[string]int{}}
	for _, s := range specs {
		a.topic(s, there[s.Name], configs[s.Name])
	}
	if len(a.few) > 0 {
		if a.brokers, err = kafka.BrokerIDs(ctx, c); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// topicSettings holds the effective settings of a topic, or the reason why they are unknown.
type topicSettings struct {
	values map[string]string
	err    error
}

// describeSettings asks for the settings of topics. (kadm returns nothing if one of them may not be described.)
func describeSettings(ctx context.Context, c *kafka.Cluster, topics []string) (map[string]topicSettings, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, t := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, t
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(ctx, c)
	if err != nil {
		return nil, err
	}
	out := make(map[string]topicSettings, len(resp.Resources))
	for _, r := range resp.Resources {
		s := topicSettings{values: make(map[string]string, len(r.Configs)), err: kerr.ErrorForCode(r.ErrorCode)}
		for _, v := range r.Configs {
			if v.Value != nil {
				s.values[v.Name] = *v.Value
			}
		}
		out[r.ResourceName] = s
	}
	return out, nil
}

type auditor struct {
	cluster *kafka.Cluster
	// brokers are the IDs of all brokers. They are known only if few is not empty.
	brokers []int32
	// replication is how many copies a new topic would get.
	replication int
	problems    []TopicProblem
	// few holds the topics with fewer copies than that.
	few []kadm.TopicDetail
	// insync is min.insync.replicas of each topic.
	insync map[string]int
}

func (a *auditor) topic(s kafka.TopicSpec, t kadm.TopicDetail, configs topicSettings) {
	if t.Topic == "" || t.Err != nil {
		a.add(s.Name, "the topic", "missing", "there", "let `sagalog` create it, or restore it from a copy")
		return
	}
	if n := len(t.Partitions); n != int(s.Partitions) {
		a.add(s.Name, settingPartitions, strconv.Itoa(n), strconv.Itoa(int(s.Partitions)),
			"the number is fixed when the namespace is created: restore the topic from a copy, or choose another namespace (--namespace)")
	}
	replicas := kafka.LeastReplicas(t)
	if replicas < a.replication {
		a.few = append(a.few, t)
	}
	if configs.err != nil {
		a.add(s.Name, "the list of settings", "unreadable ("+configs.err.Error()+")", "readable",
			allow(a.cluster.Config(), "topic", s.Name, []kmsg.ACLOperation{opDescribeConfigs}))
		return
	}
	values := configs.values
	a.settings(s, values)
	if !s.Compacted {
		a.copied(s.Name, values, replicas)
	}
	a.insync[s.Name], _ = strconv.Atoi(values["min.insync.replicas"]) // absent: the broker requires none
	if a.insync[s.Name] > replicas {
		a.add(s.Name, "min.insync.replicas", values["min.insync.replicas"], "at most the number of replicas, which is "+strconv.Itoa(replicas)+", or every append is refused",
			a.alter(s.Name, "min.insync.replicas", strconv.Itoa(max(1, replicas-1))))
	}
}

// settingPartitions is the name that a TopicProblem gives to the number of partitions.
const settingPartitions = "partitions"

func (a *auditor) settings(s kafka.TopicSpec, values map[string]string) {
	a.atLeast(s.Name, values, "max.message.bytes", s.MaxMessageBytes)
	if s.Compacted {
		// Writers send the records of such a topic again every second, so it may lose them. Without compaction it would grow
		// forever.
		if got, ok := values["cleanup.policy"]; ok && !strings.Contains(got, "compact") {
			a.add(s.Name, "cleanup.policy", got, "compact", a.alter(s.Name, "cleanup.policy", "compact"))
		}
		return
	}
	a.equal(s.Name, values, "cleanup.policy", "delete")
	if s.Retention > 0 { // people decide how long they need these
		return
	}
	a.equal(s.Name, values, "retention.ms", "-1")
	a.equal(s.Name, values, "retention.bytes", "-1")
}

// copied checks the settings that matter for a topic with several copies. With fewer copies than SafeReplication,
// min.insync.replicas of two would stop the appends whenever one broker is down.
func (a *auditor) copied(topic string, values map[string]string, replicas int) {
	if a.replication < kafka.SafeReplication {
		return
	}
	if replicas >= kafka.SafeReplication {
		a.atLeast(topic, values, "min.insync.replicas", kafka.SafeInSync)
	}
	if replicas > 1 {
		a.equal(topic, values, "unclean.leader.election.enable", "false")
	}
}

func (a *auditor) equal(topic string, values map[string]string, key, want string) {
	if got, ok := values[key]; ok && got != want {
		a.add(topic, key, got, want, a.alter(topic, key, want))
	}
}

func (a *auditor) atLeast(topic string, values map[string]string, key string, want int) {
	got, ok := values[key]
	if !ok {
		return
	}
	if n, err := strconv.Atoi(got); err != nil || n < want {
		a.add(topic, key, got, "at least "+strconv.Itoa(want), a.alter(topic, key, strconv.Itoa(want)))
	}
}

func (a *auditor) alter(topic, key, value string) string {
	return a.cluster.Config().Script("kafka-configs.sh") + " --alter --entity-type topics --entity-name " + topic +
		" --add-config " + key + "=" + value
}

func (a *auditor) add(topic, setting, value, want, remedy string) {
	a.problems = append(a.problems, TopicProblem{Topic: topic, Setting: setting, Value: value, Want: want, Remedy: remedy})
}
