package kafka

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The limits of a record batch, in bytes: input limit < fact limit < topic and producer limit (DESIGN 2).
const (
	MaxMessageBytes = 2 << 20
	// DeadMaxMessageBytes leaves room for an input of another client that unpacks to several times its size.
	DeadMaxMessageBytes = 8 << 20

	deadPrefix = "dlq."
)

// Topics knows the names of the topics of a namespace.
type Topics struct{ Namespace string }

// Submissions is where anyone allowed asks for tasks.
func (t Topics) Submissions() string { return t.Namespace + ".submissions" }

// Reports is where agents report, and operators and other systems ask.
func (t Topics) Reports() string { return t.Namespace + ".reports" }

// Events is the system of record.
func (t Topics) Events() string { return t.Namespace + ".events" }

// Work is where an agent finds its requests.
func (t Topics) Work(agent string) string { return t.Namespace + ".work." + agent }

// Definitions holds every version of every workflow.
func (t Topics) Definitions() string { return t.Namespace + ".definitions" }

// Presence is where instances and nodes say each second that they live.
func (t Topics) Presence() string { return t.Namespace + ".presence" }

// Alerts is what an operator must see.
func (t Topics) Alerts() string { return t.Namespace + ".alerts" }

// DeadSubmissions holds rejected submissions.
func (t Topics) DeadSubmissions() string { return deadPrefix + t.Namespace + ".submissions" }

// DeadReports holds rejected reports.
func (t Topics) DeadReports() string { return deadPrefix + t.Namespace + ".reports" }

// TopicSpec is how a topic must be.
type TopicSpec struct {
	Name            string
	Partitions      int32
	MaxMessageBytes int
	// Compacted marks a topic of which only the last record of each key matters.
	Compacted bool
}

// Base returns the topics that every namespace has, with p partitions where the number is the namespace's.
func (t Topics) Base(p int32) []TopicSpec {
	return []TopicSpec{
		// definitions comes first: its first record makes the namespace.
		{Name: t.Definitions(), Partitions: 1, MaxMessageBytes: MaxMessageBytes},
		{Name: t.Submissions(), Partitions: p, MaxMessageBytes: MaxMessageBytes},
		{Name: t.Reports(), Partitions: p, MaxMessageBytes: MaxMessageBytes},
		{Name: t.Events(), Partitions: p, MaxMessageBytes: MaxMessageBytes},
		{Name: t.DeadSubmissions(), Partitions: p, MaxMessageBytes: DeadMaxMessageBytes},
		{Name: t.DeadReports(), Partitions: p, MaxMessageBytes: DeadMaxMessageBytes},
		{Name: t.Alerts(), Partitions: 1, MaxMessageBytes: MaxMessageBytes},
		{Name: t.Presence(), Partitions: 1, MaxMessageBytes: MaxMessageBytes, Compacted: true},
	}
}

// WorkSpec returns the topic of an agent's requests.
func (t Topics) WorkSpec(agent string, partitions int32) TopicSpec {
	return TopicSpec{Name: t.Work(agent), Partitions: partitions, MaxMessageBytes: MaxMessageBytes}
}

func (s TopicSpec) settings(replication int16) map[string]*string {
	text := map[string]string{
		"cleanup.policy":      "delete",
		"retention.ms":        "-1",
		"retention.bytes":     "-1",
		"max.message.bytes":   strconv.Itoa(s.MaxMessageBytes),
		"min.insync.replicas": "1",
	}
	if s.Compacted {
		text["cleanup.policy"] = "compact"
	}
	if replication >= safeReplication {
		text["min.insync.replicas"] = strconv.Itoa(safeInsync)
		text["unclean.leader.election.enable"] = "false"
	}
	out := make(map[string]*string, len(text))
	for k, v := range text {
		out[k] = &v
	}
	return out
}

// A record that is in two of three copies survives the loss of any one machine, and appends go on without it.
const (
	safeReplication = 3
	safeInsync      = 2
)

// replication is 3 where there are three brokers to hold the copies, else 1: with two, one copy more would stop
// appends whenever either is down. A broker that is down at the moment counts (Apache Kafka 4 and later say so): a topic
// that is made meanwhile would else have one copy for ever.
func (c *Cluster) replication(ctx context.Context) (int16, error) {
	if c.cfg.Embedded {
		return 1, nil
	}
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	resp, err := req.RequestWith(ctx, c.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return 0, fmt.Errorf("list brokers: %w", err)
	}
	if len(resp.Brokers) >= safeReplication {
		return safeReplication, nil
	}
	return 1, nil
}

// EnsureTopics creates those topics that are missing and returns when each partition has a leader and each broker that
// answers knows it. A topic that is there is left as it is: Audit judges it. It errors with *CreateError where the
// cluster refuses one.
func EnsureTopics(ctx context.Context, c *Cluster, specs ...TopicSpec) error {
	rf, err := c.replication(ctx)
	if err != nil {
		return err
	}
	there, err := c.describe(ctx, names(specs)...)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	for _, s := range specs {
		if there.Has(s.Name) {
			continue
		}
		if err := c.create(ctx, s, rf); err != nil {
			return err
		}
	}
	return c.awaitLeaders(ctx, specs)
}

func names(specs []TopicSpec) []string {
	out := make([]string, len(specs))
	for i, s := range specs {
		out[i] = s.Name
	}
	return out
}

// describe asks the cluster and not the client's memory, in which a topic that was just deleted still stands.
func (c *Cluster) describe(ctx context.Context, topics ...string) (kadm.TopicDetails, error) {
	return c.admin.ListTopics(kadm.WithAuthorizedOps(ctx), topics...)
}

// leaderPoll is short, because a new topic has its leaders within milliseconds.
const leaderPoll = 50 * time.Millisecond

func (c *Cluster) awaitLeaders(ctx context.Context, specs []TopicSpec) error {
	for {
		missing, err := c.missing(ctx, specs)
		if err != nil {
			return fmt.Errorf("list topics: %w", err)
		}
		if missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the leaders of topic %s: %w", missing, context.Cause(ctx))
		case <-time.After(leaderPoll):
		}
	}
}

// missing returns a topic that some broker does not know, or that has a partition without a leader; "" if there is none.
// Each broker is asked, since it learns of a new topic a moment after the others, and until then it says that there is
// none: to Audit, which would refuse the start, and to readers and producers.
func (c *Cluster) missing(ctx context.Context, specs []TopicSpec) (string, error) {
	there, err := c.describe(ctx, names(specs)...)
	if err != nil {
		return "", err
	}
	if topic := leaderless(there, specs); topic != "" || c.cfg.Embedded {
		return topic, nil
	}
	brokers, err := c.admin.ListBrokers(ctx)
	if err != nil {
		return "", err
	}
	req := kmsg.NewPtrMetadataRequest()
	for _, s := range specs {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &s.Name
		req.Topics = append(req.Topics, topic)
	}
	for _, b := range brokers {
		resp, err := req.RequestWith(ctx, c.client.Broker(int(b.NodeID)))
		if err != nil {
			continue // it is going away; before it comes back it learns what there is
		}
		for _, t := range resp.Topics {
			if kerr.ErrorForCode(t.ErrorCode) != nil && t.Topic != nil {
				return *t.Topic, nil
			}
		}
	}
	return "", nil
}

func leaderless(there kadm.TopicDetails, specs []TopicSpec) string {
	for _, s := range specs {
		t, ok := there[s.Name]
		if !ok || t.Err != nil || len(t.Partitions) == 0 {
			return s.Name
		}
		for _, p := range t.Partitions {
			if p.Err != nil || p.Leader < 0 {
				return s.Name
			}
		}
	}
	return ""
}

// TopicID returns the identity of a topic: another one after the topic was deleted and created again.
func (c *Cluster) TopicID(ctx context.Context, topic string) ([16]byte, error) {
	there, err := c.describe(ctx, topic)
	if err != nil {
		return [16]byte{}, fmt.Errorf("look up topic %s: %w", topic, err)
	}
	if err := there[topic].Err; err != nil {
		return [16]byte{}, fmt.Errorf("look up topic %s: %w", topic, fromClient(err))
	}
	return there[topic].ID, nil
}

// Partitions returns how many partitions a topic has, and ErrUnknownTopic if it does not exist.
func (c *Cluster) Partitions(ctx context.Context, topic string) (int32, error) {
	there, err := c.describe(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("look up topic %s: %w", topic, err)
	}
	if err := there[topic].Err; err != nil {
		return 0, fmt.Errorf("look up topic %s: %w", topic, fromClient(err))
	}
	return int32(len(there[topic].Partitions)), nil
}

// ListTopics returns the names of the topics that start with prefix, sorted.
func (c *Cluster) ListTopics(ctx context.Context, prefix string) ([]string, error) {
	there, err := c.describe(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	var out []string
	for name := range there {
		if strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}
