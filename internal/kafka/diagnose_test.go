package kafka_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	mayRead     = kmsg.ACLOperationRead
	mayWrite    = kmsg.ACLOperationWrite
	mayCreate   = kmsg.ACLOperationCreate
	mayDescribe = kmsg.ACLOperationDescribe
	maySettings = kmsg.ACLOperationDescribeConfigs
)

// everything is the need of a process of all roles.
func everything() kafka.Need {
	return kafka.Need{Topics: kafka.Topics{Namespace: "sagalog"}, Partitions: 3, Owner: true, API: true, Projector: true, Agents: []string{"pack"}, Made: made(0)}
}

func made(partitions int32) func(context.Context) (int32, error) {
	return func(context.Context) (int32, error) { return partitions, nil }
}

// without takes operations out of what is allowed.
func without(allowed []kafkatest.Allowed, of string, ops ...kmsg.ACLOperation) []kafkatest.Allowed {
	out := slices.Clone(allowed)
	for i, a := range out {
		if strings.HasPrefix(a.Prefix, of) {
			out[i].To = slices.DeleteFunc(slices.Clone(a.To), func(op kmsg.ACLOperation) bool { return slices.Contains(ops, op) })
		}
	}
	return out
}

// connect is the limited user of a broker with access lists.
func connect(t *testing.T, g *kafkatest.Guarded, user string) *kafka.Cluster {
	t.Helper()
	c, err := kafka.Connect(g.Config(user, "SCRAM-SHA-512"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func refused(t *testing.T, err error) string {
	t.Helper()
	var e *kafka.PreflightError
	require.ErrorAs(t, err, &e)
	return err.Error()
}

// What is missing is told with the command that gives it.
func TestMissingPermissionsAreToldWithTheCommandThatGivesThem(t *testing.T) {
	t.Parallel()
	all := kafkatest.Enough("sagalog")
	const acls = "kafka-acls.sh --bootstrap-server "
	for name, c := range map[string]struct {
		allowed []kafkatest.Allowed
		say     []string
		not     []string
	}{
		"nothing at all": {[]kafkatest.Allowed{}, []string{
			"READ on the topics sagalog.definitions, sagalog.events", "WRITE on the topics sagalog.alerts",
			"--add --allow-principal 'User:limited' --operation READ --operation WRITE --operation CREATE --operation DESCRIBE --operation DescribeConfigs --topic sagalog. --resource-pattern-type prefixed",
			"--operation READ --operation WRITE --operation CREATE --operation DescribeConfigs --topic dlq.sagalog. --resource-pattern-type prefixed",
			"READ on the groups sagalog.agents.pack, sagalog.owners", "--operation READ --group sagalog. --resource-pattern-type prefixed",
		}, nil},
		"no group": {all[:2], []string{"READ on the groups sagalog.agents.pack, sagalog.owners", acls}, []string{"--topic"}},
		"no writing": {without(all, "sagalog", mayWrite), []string{"lacks permissions: WRITE on the topics sagalog.alerts, sagalog.definitions, sagalog.events",
			"--operation WRITE --topic sagalog."}, []string{"--operation READ", "dlq."}},
		"no settings": {without(all, "dlq", maySettings), []string{"DESCRIBE_CONFIGS on the topics dlq.sagalog.reports, dlq.sagalog.submissions",
			"--operation DescribeConfigs --topic dlq.sagalog."}, []string{"--operation READ"}},
		"no dead letters": {append([]kafkatest.Allowed{all[0]}, all[2]), []string{"dlq.sagalog."}, []string{"--topic sagalog."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, Allowed: c.allowed})
			kafkatest.Create(t, connect(t, g, kafkatest.AdminUser), append(everything().Topics.Base(3), everything().Topics.WorkSpec("pack", 3))...)
			text := refused(t, kafka.Preflight(within(t), connect(t, g, kafkatest.LimitedUser), everything()))
			for _, part := range c.say {
				require.Contains(t, text, part)
			}
			for _, part := range c.not {
				require.NotContains(t, text, part)
			}
			require.NotContains(t, text, kafkatest.LimitedPassword)
		})
	}
}

// Whoever may not make topics is told who may, and how.
func TestTopicsThatMayNotBeMadeAreToldWithTheCommandThatMakesThem(t *testing.T) {
	t.Parallel()
	allowed := without(without(kafkatest.Enough("sagalog"), "sagalog", mayCreate), "dlq", mayCreate)
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, Allowed: allowed})
	c := connect(t, g, kafkatest.LimitedUser)
	text := refused(t, kafka.Preflight(within(t), c, everything()))
	require.Contains(t, text, "CREATE on the topics sagalog.alerts, sagalog.definitions")
	require.Contains(t, text, "--operation CREATE --topic sagalog. --resource-pattern-type prefixed\n")
	require.Contains(t, text, "or, instead of CREATE, make the topics by:")
	require.Contains(t, text, "kafka-topics.sh --bootstrap-server "+g.Bootstrap()+" --command-config ADMIN.properties --create --topic sagalog.events "+
		"--partitions 3 --replication-factor 1 --config cleanup.policy=delete --config max.message.bytes=2097152 --config min.insync.replicas=1 "+
		"--config retention.bytes=-1 --config retention.ms=-1")

	// Once somebody has made them, nothing is missing.
	kafkatest.Create(t, connect(t, g, kafkatest.AdminUser), everything().Topics.Base(3)...)
	require.NoError(t, kafka.Preflight(within(t), c, everything()))
}

// The refusal of one topic at run time, such as that of work for a new agent, says how to make it too.
func TestEnsureTopicsSaysHowToMakeATopicThatIsRefused(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, Allowed: without(kafkatest.Enough("sagalog"), "sagalog", mayCreate)})
	err := kafka.EnsureTopics(within(t), connect(t, g, kafkatest.LimitedUser), kafka.Topics{Namespace: "sagalog"}.WorkSpec("pack", 3))
	var e *kafka.CreateError
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
	require.Contains(t, err.Error(), "the cluster refuses to make the topic sagalog.work.pack")
	require.Contains(t, err.Error(), "--create --topic sagalog.work.pack --partitions 3")
}

// A cluster whose policy forbids a topic says why, and the refusal passes it on.
func TestAPolicyThatForbidsATopicIsPassedOn(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{})
	c := connect(t, g, "")
	g.Cluster.ControlKey(kmsg.CreateTopics.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		g.Cluster.KeepControl()
		resp := r.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, asked := range r.(*kmsg.CreateTopicsRequest).Topics {
			topic := kmsg.NewCreateTopicsResponseTopic()
			topic.Topic, topic.ErrorCode = asked.Topic, kerr.PolicyViolation.Code
			topic.ErrorMessage = kmsg.StringPtr("topics need an owner tag")
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	text := refused(t, kafka.Preflight(within(t), c, everything()))
	require.Contains(t, text, "the cluster refuses to make the topic sagalog.events: POLICY_VIOLATION")
	require.Contains(t, text, "topics need an owner tag")
}

// With what it needs and no more, a process gets its topics, and a second look finds nothing to say.
func TestAProcessWithWhatItNeedsIsLetThrough(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, TLS: true, Allowed: kafkatest.Enough("sagalog")})
	c := connect(t, g, kafkatest.LimitedUser)
	need := everything()
	before := kafka.Diagnose(within(t), c, need)
	require.Contains(t, said(before), "namespace sagalog does not exist yet: the first node makes it, with 3 partitions")
	require.Empty(t, failing(before))
	made, err := c.ListTopics(within(t), "")
	require.NoError(t, err)
	require.Empty(t, made, "looking changes nothing")

	require.NoError(t, kafka.Preflight(within(t), c, need))
	made, err = c.ListTopics(within(t), "")
	require.NoError(t, err)
	require.Len(t, made, 8)
	require.NoError(t, kafka.Audit(within(t), c, need.Topics.Base(3)...))

	// A process with agents alone makes the topics of its work once there is a namespace.
	agents := kafka.Need{Topics: need.Topics, Agents: []string{"pack"}}
	require.NoError(t, kafka.Preflight(within(t), c, agents))
	partitions, err := c.Partitions(within(t), need.Topics.Work("pack"))
	require.NoError(t, err)
	require.EqualValues(t, 3, partitions)
}

// Agents need far less than nodes.
func TestAgentsNeedLittle(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, Allowed: []kafkatest.Allowed{
		{Prefix: "sagalog.submissions", To: []kmsg.ACLOperation{mayDescribe}}, {Prefix: "sagalog.reports", To: []kmsg.ACLOperation{mayWrite}},
		{Prefix: "sagalog.presence", To: []kmsg.ACLOperation{mayWrite}}, {Prefix: "sagalog.work.pack", To: []kmsg.ACLOperation{mayRead}},
		{Group: true, Prefix: "sagalog.agents.pack", To: []kmsg.ACLOperation{mayRead}},
	}})
	need := kafka.Need{Topics: kafka.Topics{Namespace: "sagalog"}, Agents: []string{"pack"}}
	kafkatest.Create(t, connect(t, g, kafkatest.AdminUser), append(need.Topics.Base(3), need.Topics.WorkSpec("pack", 3))...)
	c := connect(t, g, kafkatest.LimitedUser)
	require.NoError(t, kafka.Preflight(within(t), c, need))

	need.Agents = append(need.Agents, "ship")
	text := refused(t, kafka.Preflight(within(t), c, need))
	require.Contains(t, text, "READ on the topic sagalog.work.ship")
	require.Contains(t, text, "READ on the group sagalog.agents.ship")
}

// An existing topic whose settings could lose something, or whose partitions are not those of the namespace, is
// refused with the command that mends it.
func TestTopicsThatCouldLoseSomethingAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		topic, setting, value string
		say                   string
	}{
		"time":     {"sagalog.events", "retention.ms", "604800000", "--entity-name sagalog.events --add-config retention.ms=-1"},
		"size":     {"sagalog.reports", "retention.bytes", "1073741824", "--entity-name sagalog.reports --add-config retention.bytes=-1"},
		"policy":   {"sagalog.definitions", "cleanup.policy", "compact", "--entity-name sagalog.definitions --add-config cleanup.policy=delete"},
		"presence": {"sagalog.presence", "cleanup.policy", "delete", "--entity-name sagalog.presence --add-config cleanup.policy=compact"},
		"large":    {"sagalog.submissions", "max.message.bytes", "1048588", "max.message.bytes is 1048588, must be at least 2097152"},
		"copies": {"sagalog.events", "min.insync.replicas", "2",
			"min.insync.replicas is 2, must be at most the number of replicas, which is 1, or every append is refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Start(t)
			kafkatest.Create(t, b, everything().Topics.Base(3)...)
			kafka.AlterTopic(t, b, c.topic, c.setting, c.value)
			text := refused(t, kafka.Preflight(within(t), b, everything()))
			require.Contains(t, text, "topic "+c.topic+": "+c.setting+" is "+c.value+", must be ")
			require.Contains(t, text, c.say)
			require.Contains(t, text, "Remedy: kafka-configs.sh --bootstrap-server ")

			findings := kafka.Diagnose(within(t), b, everything())
			require.Len(t, failing(findings), 1)
		})
	}
}

func TestAnotherNumberOfPartitionsIsRefused(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t)
	kafkatest.Create(t, b, everything().Topics.Base(3)...)
	need := everything()
	need.Partitions = 4
	text := refused(t, kafka.Preflight(within(t), b, need))
	require.Contains(t, text, "topic sagalog.events: partitions is 3, must be 4. Remedy: give --partitions 3")

	need.Made = made(5)
	text = refused(t, kafka.Preflight(within(t), b, need))
	require.Contains(t, text, "topic sagalog.events: partitions is 3, must be 5. Remedy: the number is fixed when the namespace is made")
}

// A topic that held what was accepted is never made anew in silence.
func TestALostTopicOfANamespaceIsRefused(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t)
	need := everything()
	need.Made = made(3)
	kafkatest.Create(t, b, need.Topics.Base(3)...)
	kafka.DeleteTopic(t, b, "sagalog.events")
	kafka.DeleteTopic(t, b, "sagalog.alerts")
	text := refused(t, kafka.Preflight(within(t), b, need))
	require.Contains(t, text, "the topic sagalog.events is gone, although the namespace sagalog exists")
	require.NotContains(t, text, "alerts", "what is missing there is made anew")
}

// A namespace that cannot be read is refused in the words of who read it.
func TestANamespaceThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t)
	need := everything()
	kafkatest.Create(t, b, need.Topics.Base(3)...)
	need.Made = func(context.Context) (int32, error) { return 0, kerr.InvalidRecord }
	require.Contains(t, refused(t, kafka.Preflight(within(t), b, need)), "namespace sagalog cannot be read: INVALID_RECORD")
}

// A cluster whose __consumer_offsets cannot be made has no groups, and nobody would ever be given a partition.
func TestAClusterWithoutGroupsIsTold(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{})
	answerBy(g, kmsg.NewPtrFindCoordinatorRequest(), func(resp *kmsg.FindCoordinatorResponse) {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.ErrorCode = "sagalog.owners", kerr.CoordinatorNotAvailable.Code
		resp.Coordinators = append(resp.Coordinators, c)
	})
	findings := failing(kafka.Diagnose(within(t), connect(t, g, ""), everything()))
	require.Len(t, findings, 1)
	require.Equal(t, kafka.CheckGroups, findings[0].Check)
	require.Contains(t, findings[0].String(), "no broker coordinates the group sagalog.owners. Remedy: look whether the topic __consumer_offsets can be made")
}

func TestPreflightEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	c, err := kafka.Connect(at(closedPort(t)))
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, kafka.Preflight(ctx, c, everything()), context.Canceled)
}

func said(findings []kafka.Finding) string {
	var lines []string
	for _, f := range findings {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

func failing(findings []kafka.Finding) []kafka.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f kafka.Finding) bool { return f.Status != kafka.StatusFail })
}
