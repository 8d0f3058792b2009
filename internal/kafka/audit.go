package kafka

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Audit refuses, with an *AuditError that names all of them, settings that could lose facts or that refuse every append,
// and partition counts that have changed (a changed count would send a task's records to another home). It changes
// nothing.
func Audit(ctx context.Context, c *Cluster, specs ...TopicSpec) error {
	a, err := c.audit(ctx, specs)
	if err != nil {
		return err
	}
	if len(a.problems) > 0 {
		return &AuditError{Problems: a.problems}
	}
	return nil
}

func (c *Cluster) audit(ctx context.Context, specs []TopicSpec) (*auditor, error) {
	rf, err := c.replication(ctx)
	if err != nil {
		return nil, err
	}
	there, err := c.describe(ctx, names(specs)...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	configs, err := c.topicSettings(ctx, names(specs))
	if err != nil {
		return nil, fmt.Errorf("describe topic settings: %w", err)
	}
	a := &auditor{cluster: c, replication: int(rf), insync: map[string]int{}}
	for _, s := range specs {
		a.topic(s, there[s.Name], configs[s.Name])
	}
	return a, nil
}

// topicSettings are the settings of a topic that count, its own and the broker's, or why they cannot be told.
type topicSettings struct {
	values map[string]string
	err    error
}

// topicSettings asks for the settings of topics. (kadm gives up on all topics at the first that may not be described.)
func (c *Cluster) topicSettings(ctx context.Context, topics []string) (map[string]topicSettings, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, t := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, t
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(ctx, c.client)
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

// SettingReplication is what a TopicProblem calls the number of copies, which is no setting of a topic.
const SettingReplication = "replication"

type auditor struct {
	cluster     *Cluster
	replication int
	problems    []TopicProblem
	// insync is min.insync.replicas of each topic.
	insync map[string]int
}

func (a *auditor) topic(s TopicSpec, t kadm.TopicDetail, configs topicSettings) {
	if t.Topic == "" || t.Err != nil {
		a.add(s.Name, "the topic", "missing", "there", "let `sagalog` create it, or restore it from a copy")
		return
	}
	if n := len(t.Partitions); n != int(s.Partitions) {
		a.add(s.Name, settingPartitions, strconv.Itoa(n), strconv.Itoa(int(s.Partitions)),
			"the number is fixed when the namespace is made: restore the topic from a copy, or begin another namespace (--namespace)")
	}
	replicas := leastReplicas(t)
	if replicas < a.replication {
		a.add(s.Name, "the number of replicas", strconv.Itoa(replicas), strconv.Itoa(a.replication),
			a.cluster.cfg.bootstrap("kafka-reassign-partitions.sh")+" --execute --reassignment-json-file FILE, which names "+strconv.Itoa(a.replication)+" replicas for each partition")
	}
	if configs.err != nil {
		a.add(s.Name, "the list of settings", "unreadable ("+configs.err.Error()+")", "readable",
			a.cluster.allow("topic", s.Name, []kmsg.ACLOperation{opDescribeConfigs}))
		return
	}
	values := configs.values
	a.settings(s, values)
	a.insync[s.Name], _ = strconv.Atoi(values["min.insync.replicas"]) // absent: no broker of ours asks for any
	if a.insync[s.Name] > replicas {
		a.add(s.Name, "min.insync.replicas", values["min.insync.replicas"], "at most the number of replicas, which is "+strconv.Itoa(replicas)+", or every append is refused",
			a.alter(s.Name, "min.insync.replicas", strconv.Itoa(max(1, replicas-1))))
	}
}

// settingPartitions is what a TopicProblem calls the number of partitions.
const settingPartitions = "partitions"

// leastReplicas is the number of copies of the partition that has fewest.
func leastReplicas(t kadm.TopicDetail) int {
	least := -1
	for _, p := range t.Partitions {
		if least < 0 || len(p.Replicas) < least {
			least = len(p.Replicas)
		}
	}
	return max(least, 0)
}

func (a *auditor) settings(s TopicSpec, values map[string]string) {
	a.atLeast(s.Name, values, "max.message.bytes", s.MaxMessageBytes)
	if s.Compacted {
		// What such a topic forgets, its writers say again each second; without compaction it would grow for ever.
		if got, ok := values["cleanup.policy"]; ok && !strings.Contains(got, "compact") {
			a.add(s.Name, "cleanup.policy", got, "compact", a.alter(s.Name, "cleanup.policy", "compact"))
		}
		return
	}
	a.equal(s.Name, values, "cleanup.policy", "delete")
	a.equal(s.Name, values, "retention.ms", "-1")
	a.equal(s.Name, values, "retention.bytes", "-1")
	if a.replication >= safeReplication {
		a.atLeast(s.Name, values, "min.insync.replicas", safeInsync)
		a.equal(s.Name, values, "unclean.leader.election.enable", "false")
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
	return a.cluster.cfg.bootstrap("kafka-configs.sh") + " --alter --entity-type topics --entity-name " + topic +
		" --add-config " + key + "=" + value
}

func (a *auditor) add(topic, setting, value, want, remedy string) {
	a.problems = append(a.problems, TopicProblem{Topic: topic, Setting: setting, Value: value, Want: want, Remedy: remedy})
}
