package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sagalog/sagalog/internal/pause"
)

// The limits of a record batch, in bytes. The limit of an input is lower than the limit of a fact, which is lower than these.
const (
	MaxMessageBytes = 2 << 20
	// DeadMaxMessageBytes leaves room for an input from a foreign client that has several times its size when decompressed.
	DeadMaxMessageBytes = 8 << 20

	// DeadPrefix is the prefix of the names of dead-letter topics.
	DeadPrefix = "dlq."
)

// How long a new namespace keeps what only people read. An input that was rejected is looked at within a month, or never; an alert says what
// to look at now, and is repeated while its task stays parked.
const (
	KeepDeadLetters = 30 * 24 * time.Hour
	KeepAlerts      = 7 * 24 * time.Hour
)

// The sizes of the segments of topics whose records are deleted: several of the largest records, and far less than the gigabyte that is the default of
// brokers, because a partition frees no disk space before it exceeds one segment. Inputs and requests are deleted within an hour. Facts are kept for a
// month, so small segments would take many open files.
const (
	inputSegmentBytes = 16 << 20
	factSegmentBytes  = 128 << 20
)

// Topics returns the names of a namespace's topics.
type Topics struct{ Namespace string }

// Submissions is where clients submit tasks.
func (t Topics) Submissions() string { return t.Namespace + ".submissions" }

// Reports is where agents report, and where operators and other systems send requests.
func (t Topics) Reports() string { return t.Namespace + ".reports" }

// Input is an input topic.
func (t Topics) Input(in events.Input) string { return t.Namespace + "." + string(in) }

// DeadLetters holds the rejected records of an input.
func (t Topics) DeadLetters(in events.Input) string { return DeadPrefix + t.Input(in) }

// Events is the system of record.
func (t Topics) Events() string { return t.Namespace + ".events" }

// Work is where an agent reads its work requests.
func (t Topics) Work(agent string) string { return t.Namespace + ".work." + agent }

// Definitions holds every version of every workflow.
func (t Topics) Definitions() string { return t.Namespace + ".definitions" }

// Presence holds the heartbeats of agents and nodes.
func (t Topics) Presence() string { return t.Namespace + ".presence" }

// Alerts holds messages for operators.
func (t Topics) Alerts() string { return t.Namespace + ".alerts" }

// Keys holds the data keys with which values are sealed, wrapped. Only a namespace that seals has it.
func (t Topics) Keys() string { return t.Namespace + ".keys" }

// KeysSpec returns the topic of keys.
func (t Topics) KeysSpec() TopicSpec {
	return TopicSpec{Name: t.Keys(), Partitions: 1, MaxMessageBytes: MaxMessageBytes, Compacted: true, CompactWithin: time.Hour}
}

// DeadSubmissions holds rejected submissions.
func (t Topics) DeadSubmissions() string { return DeadPrefix + t.Namespace + ".submissions" }

// DeadReports holds rejected reports.
func (t Topics) DeadReports() string { return DeadPrefix + t.Namespace + ".reports" }

// TopicSpec describes how a topic must be configured.
type TopicSpec struct {
	Name            string
	Partitions      int32
	MaxMessageBytes int
	// Retention is for how long records stay in a new topic; zero: until somebody deletes them. Later the topic's own setting counts.
	Retention time.Duration
	// SegmentBytes is the size of the segments of a topic whose records are deleted when nobody needs them any more: a broker deletes only whole
	// segments. Zero: the default of the brokers.
	SegmentBytes int
	// Compacted marks a topic in which only the last record of each key matters.
	Compacted bool
	// CompactWithin bounds how long a compacted topic holds what a later record replaces, once more is written to it; zero: as long as the
	// brokers like.
	CompactWithin time.Duration
	// BrokerTime makes the leader stamp each record when it is appended. Nodes compare their clocks with it.
	BrokerTime bool
}

// Base returns the topics that every namespace has. p is the number of partitions of the namespace, which most of them share.
func (t Topics) Base(p int32) []TopicSpec {
	return []TopicSpec{
		// definitions comes first: its first record creates the namespace.
		{Name: t.Definitions(), Partitions: 1, MaxMessageBytes: MaxMessageBytes},
		{Name: t.Submissions(), Partitions: p, MaxMessageBytes: MaxMessageBytes, SegmentBytes: inputSegmentBytes},
		{Name: t.Reports(), Partitions: p, MaxMessageBytes: MaxMessageBytes, SegmentBytes: inputSegmentBytes},
		{Name: t.Events(), Partitions: p, MaxMessageBytes: MaxMessageBytes, SegmentBytes: factSegmentBytes},
		{Name: t.DeadSubmissions(), Partitions: p, MaxMessageBytes: DeadMaxMessageBytes, Retention: KeepDeadLetters},
		{Name: t.DeadReports(), Partitions: p, MaxMessageBytes: DeadMaxMessageBytes, Retention: KeepDeadLetters},
		{Name: t.Alerts(), Partitions: 1, MaxMessageBytes: MaxMessageBytes, Retention: KeepAlerts},
		{Name: t.Presence(), Partitions: 1, MaxMessageBytes: MaxMessageBytes, Compacted: true, BrokerTime: true},
	}
}

// WorkSpec returns the topic of an agent's requests.
func (t Topics) WorkSpec(agent string, partitions int32) TopicSpec {
	return TopicSpec{Name: t.Work(agent), Partitions: partitions, MaxMessageBytes: MaxMessageBytes, SegmentBytes: inputSegmentBytes}
}

func (s TopicSpec) settings(replication int16) map[string]*string {
	text := map[string]string{
		"cleanup.policy":      "delete",
		"retention.ms":        "-1",
		"retention.bytes":     "-1",
		"max.message.bytes":   strconv.Itoa(s.MaxMessageBytes),
		"min.insync.replicas": "1",
	}
	if s.SegmentBytes > 0 {
		text["segment.bytes"] = strconv.Itoa(s.SegmentBytes)
	}
	if s.Retention > 0 {
		text["retention.ms"] = strconv.FormatInt(s.Retention.Milliseconds(), 10)
	}
	if s.Compacted {
		text["cleanup.policy"] = "compact"
	}
	if s.CompactWithin > 0 {
		within := strconv.FormatInt(s.CompactWithin.Milliseconds(), 10)
		text["segment.ms"], text["max.compaction.lag.ms"], text["min.cleanable.dirty.ratio"] = within, within, "0.01"
	}
	if s.BrokerTime {
		text["message.timestamp.type"] = "LogAppendTime"
	}
	if replication >= SafeReplication {
		text["min.insync.replicas"] = strconv.Itoa(SafeInSync)
		text["unclean.leader.election.enable"] = "false"
	}
	out := make(map[string]*string, len(text))
	for k, v := range text {
		out[k] = &v
	}
	return out
}

// The settings of topics that lose nothing. A record with two of three copies survives the loss of any one machine, and appends continue
// without it.
const (
	SafeReplication = 3
	SafeInSync      = 2
)

// ReplicationFactor is 3 if there are at least three brokers, else 1: with two copies on two brokers, appends would stop whenever either
// is down. A broker that is down at the moment counts (Apache Kafka 4 and later list it); otherwise a topic created in the meantime would
// keep a single copy forever.
func (c *Cluster) ReplicationFactor(ctx context.Context) (int16, error) {
	if c.cfg.Embedded {
		return 1, nil
	}
	brokers, err := BrokerIDs(ctx, c)
	if err != nil {
		return 0, err
	}
	if len(brokers) >= SafeReplication {
		return SafeReplication, nil
	}
	return 1, nil
}

// BrokerIDs returns the IDs of all brokers, including those that are down if the cluster lists them.
func BrokerIDs(ctx context.Context, c *Cluster) ([]int32, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	resp, err := req.RequestWith(ctx, c.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("list brokers: %w", err)
	}
	ids := make([]int32, len(resp.Brokers))
	for i, b := range resp.Brokers {
		ids[i] = b.NodeID
	}
	slices.Sort(ids)
	return ids, nil
}

// EnsureTopics creates the topics that are missing. It returns when each partition has a leader and each broker that answers knows the
// topic. Existing topics are left as they are; doctor.Audit checks those. It returns a *CreateError if the cluster refuses a topic.
func EnsureTopics(ctx context.Context, c *Cluster, specs ...TopicSpec) error {
	rf, err := c.ReplicationFactor(ctx)
	if err != nil {
		return err
	}
	there, err := c.DescribeVisible(ctx, specs)
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

// TopicNames returns the names of specs.
func TopicNames(specs []TopicSpec) []string {
	out := make([]string, len(specs))
	for i, s := range specs {
		out[i] = s.Name
	}
	return out
}

// Describe asks a broker about all topics or the named ones, and about our permissions on them. A topic that is missing or that we may
// not describe has its Err set (kadm would return nothing else). The client's cache is not used: it may still hold a topic that was just
// deleted.
func (c *Cluster) Describe(ctx context.Context, topics ...string) (kadm.TopicDetails, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, t := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &t
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return nil, err
	}
	there := kadm.TopicDetails{}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		d := kadm.TopicDetail{Topic: *t.Topic, ID: t.TopicID, Partitions: kadm.PartitionDetails{}, Err: kerr.ErrorForCode(t.ErrorCode),
			AuthorizedOperations: kadm.DecodeACLOperations(t.AuthorizedOperations)}
		for _, p := range t.Partitions {
			d.Partitions[p.Partition] = kadm.PartitionDetail{
				Topic: d.Topic, Partition: p.Partition, Leader: p.Leader, Replicas: p.Replicas, ISR: p.ISR, Err: kerr.ErrorForCode(p.ErrorCode),
			}
		}
		there[d.Topic] = d
	}
	return there, nil
}

// DescribeVisible is Describe for topics that must be visible: it returns an error if we may not describe one of them, which otherwise
// looks like a missing one.
func (c *Cluster) DescribeVisible(ctx context.Context, specs []TopicSpec) (kadm.TopicDetails, error) {
	there, err := c.Describe(ctx, TopicNames(specs)...)
	if err != nil {
		return nil, err
	}
	for _, s := range specs {
		if err := there[s.Name].Err; errors.Is(err, kerr.TopicAuthorizationFailed) {
			return nil, fmt.Errorf("describe topic %s: %w", s.Name, denied(c, err, opDescribe, s.Name, ""))
		}
	}
	return there, nil
}

// leaderPoll is short, because a new topic has leaders within milliseconds.
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
		if !pause.For(ctx, leaderPoll) {
			return fmt.Errorf("wait for the leaders of topic %s: %w", missing, context.Cause(ctx))
		}
	}
}

// missing returns a topic that some broker does not know or that has a partition without a leader, or "". Each broker is asked, because
// some learn of a new topic a moment later. Until then they tell the audit, readers and producers that it does not exist.
func (c *Cluster) missing(ctx context.Context, specs []TopicSpec) (string, error) {
	there, err := c.DescribeVisible(ctx, specs)
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
			continue // the broker is going away, and will learn of the topics before it is back
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

// topic describes one topic. It returns ErrUnknownTopic if it does not exist.
func (c *Cluster) topic(ctx context.Context, topic string) (kadm.TopicDetail, error) {
	there, err := c.Describe(ctx, topic)
	if err == nil {
		err = denied(c, fromClient(there[topic].Err), opDescribe, topic, "")
	}
	if err != nil {
		return kadm.TopicDetail{}, fmt.Errorf("look up topic %s: %w", topic, err)
	}
	return there[topic], nil
}

// TopicID returns the ID of a topic. It changes if the topic is deleted and created again.
func (c *Cluster) TopicID(ctx context.Context, topic string) ([16]byte, error) {
	t, err := c.topic(ctx, topic)
	return t.ID, err
}

// Partitions returns the number of partitions of a topic, and ErrUnknownTopic if it does not exist.
func (c *Cluster) Partitions(ctx context.Context, topic string) (int32, error) {
	t, err := c.topic(ctx, topic)
	return int32(len(t.Partitions)), err
}

// Replicas returns how many copies of a topic's records the brokers keep.
func (c *Cluster) Replicas(ctx context.Context, topic string) (int, error) {
	t, err := c.topic(ctx, topic)
	return LeastReplicas(t), err
}

// LeastReplicas returns the number of replicas of the partition that has the fewest.
func LeastReplicas(t kadm.TopicDetail) int {
	least := -1
	for _, p := range t.Partitions {
		if least < 0 || len(p.Replicas) < least {
			least = len(p.Replicas)
		}
	}
	return max(least, 0)
}

// ListTopics returns the names of the topics that start with prefix, sorted.
func (c *Cluster) ListTopics(ctx context.Context, prefix string) ([]string, error) {
	there, err := c.Describe(ctx)
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
