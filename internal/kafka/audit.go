package kafka

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Audit refuses, with an *AuditError that names all of them, settings that could lose facts and partition counts that
// have changed (a changed count would send a task's records to another home). It changes nothing.
func Audit(ctx context.Context, c *Cluster, specs ...TopicSpec) error {
	rf, err := c.replication(ctx)
	if err != nil {
		return err
	}
	there, err := c.describe(ctx, names(specs)...)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	configs, err := c.admin.DescribeTopicConfigs(ctx, names(specs)...)
	if err != nil {
		return fmt.Errorf("describe topic settings: %w", err)
	}
	a := auditor{bootstrap: strings.Join(c.cfg.Brokers, ","), replication: int(rf)}
	for _, s := range specs {
		a.topic(s, there[s.Name], configs)
	}
	if len(a.problems) > 0 {
		return &AuditError{Problems: a.problems}
	}
	return nil
}

type auditor struct {
	bootstrap   string
	replication int
	problems    []TopicProblem
}

func (a *auditor) topic(s TopicSpec, t kadm.TopicDetail, configs kadm.ResourceConfigs) {
	if t.Topic == "" || t.Err != nil {
		a.add(s.Name, "the topic", "missing", "there", "let `sagalog` create it, or restore it from a copy")
		return
	}
	if n := len(t.Partitions); n != int(s.Partitions) {
		a.add(s.Name, "partitions", strconv.Itoa(n), strconv.Itoa(int(s.Partitions)),
			"the number is fixed when the namespace is created; restore the topic from a copy, or start another namespace")
	}
	if n := t.Partitions.NumReplicas(); n < a.replication {
		a.add(s.Name, "replication", strconv.Itoa(n), strconv.Itoa(a.replication),
			"kafka-reassign-partitions.sh --bootstrap-server "+a.bootstrap+" with three replicas for each partition")
	}
	rc, err := configs.On(s.Name, nil)
	if err == nil {
		err = rc.Err
	}
	if err != nil {
		a.add(s.Name, "settings", "unreadable ("+err.Error()+")", "readable", "allow DESCRIBE_CONFIGS on the topic")
		return
	}
	values := make(map[string]string, len(rc.Configs))
	for _, c := range rc.Configs {
		values[c.Key] = c.MaybeValue()
	}
	a.settings(s, values)
}

func (a *auditor) settings(s TopicSpec, values map[string]string) {
	a.atLeast(s.Name, values, "max.message.bytes", s.MaxMessageBytes)
	if s.Compacted {
		return // what such a topic forgets, its writers say again each second
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
	return "kafka-configs.sh --bootstrap-server " + a.bootstrap + " --alter --entity-type topics --entity-name " + topic +
		" --add-config " + key + "=" + value
}

func (a *auditor) add(topic, setting, value, want, remedy string) {
	a.problems = append(a.problems, TopicProblem{Topic: topic, Setting: setting, Value: value, Want: want, Remedy: remedy})
}
