package doctor_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
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

// everything is what a process with all roles needs.
func everything() doctor.Need {
	return doctor.Need{Topics: kafka.Topics{Namespace: "sagalog"}, Partitions: 3, Owner: true, API: true, Projector: true, Agents: []string{"pack"}, Made: made(0)}
}

func made(partitions int32) func(context.Context) (int32, error) {
	return func(context.Context) (int32, error) { return partitions, nil }
}

// without removes operations from the permissions.
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
	var e *doctor.PreflightError
	require.ErrorAs(t, err, &e)
	return err.Error()
}

// Missing permissions are reported with the command that grants them.
func TestMissingPermissionsComeWithTheCommandThatGrantsThem(t *testing.T) {
	t.Parallel()
	all := kafkatest.Enough("sagalog")
	const acls = "kafka-acls.sh --bootstrap-server "
	for name, c := range map[string]struct {
		allowed []kafkatest.Allowed
		say     []string
		not     []string
	}{
		"nothing at all": {[]kafkatest.Allowed{}, []string{
			"READ on the topics sagalog.alerts, sagalog.definitions, sagalog.events", "WRITE on the topics sagalog.alerts",
			"--add --allow-principal 'User:limited' --operation READ --operation WRITE --operation CREATE --operation DescribeConfigs --topic sagalog. --resource-pattern-type prefixed",
			"--operation READ --operation WRITE --operation CREATE --operation DescribeConfigs --topic dlq.sagalog. --resource-pattern-type prefixed",
			"READ on the groups sagalog.agents.pack, sagalog.owners", "permit no more than the roles need, which is printed by: sagalog generate acls --role ROLE --principal 'User:limited'", "--operation READ --group sagalog. --resource-pattern-type prefixed",
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
			text := refused(t, doctor.Preflight(kafkatest.Within(t), connect(t, g, kafkatest.LimitedUser), everything()))
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

// What a process can do without is a warning, which names the permission and the command that says what it is for.
func TestPermissionsThatAreNotNeededAreAWarning(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		allowed []kafkatest.Allowed
		say     string
	}{
		"all": {kafkatest.Enough("sagalog"), ""},
		"no deletion": {without(kafkatest.Enough("sagalog"), "sagalog", kmsg.ACLOperationDelete),
			"lacks permissions that it can do without: DELETE on the topics sagalog.events, sagalog.reports, sagalog.submissions, sagalog.work.pack, sagalog.work.print"},
		"no groups of other agents": {append(kafkatest.Enough("sagalog")[:2], kafkatest.Allowed{Group: true, Prefix: "sagalog.owners", To: []kmsg.ACLOperation{kmsg.ACLOperationRead}},
			kafkatest.Allowed{Group: true, Prefix: "sagalog.agents.pack", To: []kmsg.ACLOperation{kmsg.ACLOperationRead}}), "READ on the group sagalog.agents.print"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, Allowed: c.allowed})
			topics := everything().Topics
			kafkatest.Create(t, connect(t, g, kafkatest.AdminUser), append(topics.Base(3), topics.WorkSpec("pack", 3), topics.WorkSpec("print", 3))...)
			found := doctor.Diagnose(kafkatest.Within(t), connect(t, g, kafkatest.LimitedUser), everything())
			require.Empty(t, failing(found))
			if c.say == "" {
				require.NotContains(t, said(found), "can do without")
				return
			}
			require.Contains(t, said(found), c.say)
		})
	}
}

// If a process is not permitted to create topics, the message says who can create them, and how.
func TestTopicsWeMayNotCreateComeWithTheCommand(t *testing.T) {
	t.Parallel()
	allowed := without(without(kafkatest.Enough("sagalog"), "sagalog", mayCreate), "dlq", mayCreate)
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, Allowed: allowed})
	c := connect(t, g, kafkatest.LimitedUser)
	text := refused(t, doctor.Preflight(kafkatest.Within(t), c, everything()))
	require.Contains(t, text, "CREATE on the topics sagalog.alerts, sagalog.definitions")
	require.Contains(t, text, "--operation CREATE --topic sagalog. --resource-pattern-type prefixed\n")
	require.Contains(t, text, "or, instead of CREATE, create the topics by:")
	require.Contains(t, text, "kafka-topics.sh --bootstrap-server "+g.Bootstrap()+" --command-config ADMIN.properties --create --topic sagalog.events "+
		"--partitions 3 --replication-factor 1 --config cleanup.policy=delete --config max.message.bytes=2097152 --config min.insync.replicas=1 "+
		"--config retention.bytes=-1 --config retention.ms=-1")

	// Once an operator has created them, nothing is missing.
	kafkatest.Create(t, connect(t, g, kafkatest.AdminUser), everything().Topics.Base(3)...)
	require.NoError(t, doctor.Preflight(kafkatest.Within(t), c, everything()))
}

// A topic that exists but may not be described looks like a missing one. Waiting for its leaders would never end.
func TestEnsureTopicsReturnsAtATopicThatItMayNotSee(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, Allowed: []kafkatest.Allowed{{Prefix: "sagalog.", To: []kmsg.ACLOperation{mayCreate}}}})
	spec := kafka.Topics{Namespace: "sagalog"}.WorkSpec("pack", 3)
	kafkatest.Create(t, connect(t, g, kafkatest.AdminUser), spec)
	err := kafka.EnsureTopics(kafkatest.Within(t), connect(t, g, kafkatest.LimitedUser), spec)
	require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
}

// A refusal at run time, for example for the work topic of a new agent, also says how to create the topic.
func TestEnsureTopicsSaysHowToCreateARefusedTopic(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, Allowed: without(kafkatest.Enough("sagalog"), "sagalog", mayCreate)})
	err := kafka.EnsureTopics(kafkatest.Within(t), connect(t, g, kafkatest.LimitedUser), kafka.Topics{Namespace: "sagalog"}.WorkSpec("pack", 3))
	var e *kafka.CreateError
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
	require.Contains(t, err.Error(), "the cluster refuses to create the topic sagalog.work.pack")
	require.Contains(t, err.Error(), "--create --topic sagalog.work.pack --partitions 3")
}

// If a policy of the cluster forbids a topic, the refusal says why.
func TestAPolicyThatForbidsATopicIsReported(t *testing.T) {
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
	text := refused(t, doctor.Preflight(kafkatest.Within(t), c, everything()))
	require.Contains(t, text, "the cluster refuses to create the topic sagalog.events: POLICY_VIOLATION")
	require.Contains(t, text, "topics need an owner tag")
}

// With exactly the permissions that it needs, a process gets its topics, and a second examination reports nothing.
func TestAProcessWithItsPermissionsPasses(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, TLS: true, Allowed: kafkatest.Enough("sagalog")})
	c := connect(t, g, kafkatest.LimitedUser)
	need := everything()
	before := doctor.Diagnose(kafkatest.Within(t), c, need)
	require.Contains(t, said(before), "namespace sagalog does not exist yet: the first node creates it, with 3 partitions")
	require.Empty(t, failing(before))
	made, err := c.ListTopics(kafkatest.Within(t), "")
	require.NoError(t, err)
	require.Empty(t, made, "an examination changes nothing")

	require.NoError(t, doctor.Preflight(kafkatest.Within(t), c, need))
	made, err = c.ListTopics(kafkatest.Within(t), "")
	require.NoError(t, err)
	require.Len(t, made, 8)
	require.NoError(t, doctor.Audit(kafkatest.Within(t), c, need.Topics.Base(3)...))

	// A process with only agents creates its work topics once the namespace exists.
	agents := doctor.Need{Topics: need.Topics, Agents: []string{"pack"}}
	require.NoError(t, doctor.Preflight(kafkatest.Within(t), c, agents))
	partitions, err := c.Partitions(kafkatest.Within(t), need.Topics.Work("pack"))
	require.NoError(t, err)
	require.EqualValues(t, 3, partitions)
}

// Agents need far fewer permissions than nodes.
func TestAgentsNeedFewPermissions(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, Allowed: []kafkatest.Allowed{
		{Prefix: "sagalog.submissions", To: []kmsg.ACLOperation{mayDescribe}}, {Prefix: "sagalog.reports", To: []kmsg.ACLOperation{mayWrite}},
		{Prefix: "sagalog.presence", To: []kmsg.ACLOperation{mayWrite}}, {Prefix: "sagalog.work.pack", To: []kmsg.ACLOperation{mayRead}},
		{Group: true, Prefix: "sagalog.agents.pack", To: []kmsg.ACLOperation{mayRead}},
	}})
	need := doctor.Need{Topics: kafka.Topics{Namespace: "sagalog"}, Agents: []string{"pack"}}
	kafkatest.Create(t, connect(t, g, kafkatest.AdminUser), append(need.Topics.Base(3), need.Topics.WorkSpec("pack", 3))...)
	c := connect(t, g, kafkatest.LimitedUser)
	require.NoError(t, doctor.Preflight(kafkatest.Within(t), c, need))

	need.Agents = append(need.Agents, "ship")
	text := refused(t, doctor.Preflight(kafkatest.Within(t), c, need))
	require.Contains(t, text, "READ on the topic sagalog.work.ship")
	require.Contains(t, text, "READ on the group sagalog.agents.ship")
}

// An existing topic whose settings could lose records, or that has another number of partitions, is refused with the command that corrects it.
func TestTopicsThatCouldLoseRecordsAreRefused(t *testing.T) {
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
			kafkatest.AlterTopic(t, kafkatest.World{Cluster: b}, c.topic, c.setting, c.value)
			text := refused(t, doctor.Preflight(kafkatest.Within(t), b, everything()))
			require.Contains(t, text, "topic "+c.topic+": "+c.setting+" is "+c.value+", must be ")
			require.Contains(t, text, c.say)
			require.Contains(t, text, "Remedy: kafka-configs.sh --bootstrap-server ")

			findings := doctor.Diagnose(kafkatest.Within(t), b, everything())
			require.Len(t, failing(findings), 1)
		})
	}
}

// Topics that were created when there was one broker keep one copy after brokers were added. Nothing is lost by that, so the process starts,
// and doctor shows how to make the copies.
func TestTopicsFromBeforeBrokersWereAddedAreAWarning(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{})
	c := connect(t, g, "")
	need := everything()
	need.Made = made(3)
	need.Warn = func(f doctor.Finding) { require.NotContains(t, f.What, "copies", "the node itself says so") }
	kafkatest.Create(t, c, need.Topics.Base(3)...)
	require.NoError(t, doctor.Preflight(kafkatest.Within(t), c, need)) // creates the topic of work
	answerBy(g, kmsg.NewPtrDescribeClusterRequest(), func(resp *kmsg.DescribeClusterResponse) {
		for id := range int32(4) {
			b := kmsg.NewDescribeClusterResponseBroker()
			b.NodeID, b.Host, b.Port = 3-id, "broker", 9092
			resp.Brokers = append(resp.Brokers, b)
		}
	})
	require.NoError(t, doctor.Preflight(kafkatest.Within(t), c, need))
	require.NoError(t, doctor.Audit(kafkatest.Within(t), c, need.Topics.Base(3)...))

	findings := doctor.Diagnose(kafkatest.Within(t), c, need)
	require.Empty(t, failing(findings))
	few := slices.DeleteFunc(findings, func(f doctor.Finding) bool { return f.Status != doctor.StatusWarn })
	require.Len(t, few, 1)
	require.Contains(t, few[0].What, "there are 4 brokers, but these topics have fewer than 3 copies")
	require.Contains(t, few[0].What, "sagalog.events (1)")
	require.Contains(t, few[0].Remedy, `{"topic":"sagalog.events","partition":0,"replicas":[0,1,2]},`+
		`{"topic":"sagalog.events","partition":1,"replicas":[0,2,3]},{"topic":"sagalog.events","partition":2,"replicas":[0,3,1]}`)
	require.Contains(t, few[0].Remedy, "kafka-reassign-partitions.sh --bootstrap-server "+g.Bootstrap()+" --execute --reassignment-json-file copies.json")
	require.Contains(t, few[0].Remedy, "--add-config min.insync.replicas=2")

	kafkatest.AlterTopic(t, kafkatest.World{Cluster: c}, "sagalog.events", "retention.ms", "1000")
	require.Contains(t, refused(t, doctor.Preflight(kafkatest.Within(t), c, need)), "retention.ms is 1000", "what could lose facts is refused as before")
}

// A topic with three copies must be written to two of them, however it was created.
func TestThreeCopiesNeedTwoInSync(t *testing.T) {
	t.Parallel()
	for copies, want := range map[int32][]string{1: nil, 2: {"unclean.leader.election.enable"}, 3: {"min.insync.replicas", "unclean.leader.election.enable"}} {
		require.Equal(t, want, doctor.Problems(3, copies, map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}), copies)
	}
}

func TestAnotherNumberOfPartitionsIsRefused(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t)
	kafkatest.Create(t, b, everything().Topics.Base(3)...)
	need := everything()
	need.Partitions = 4
	text := refused(t, doctor.Preflight(kafkatest.Within(t), b, need))
	require.Contains(t, text, "topic sagalog.events: partitions is 3, must be 4. Remedy: set --partitions 3")

	need.Made = made(5)
	text = refused(t, doctor.Preflight(kafkatest.Within(t), b, need))
	require.Contains(t, text, "topic sagalog.events: partitions is 3, must be 5. Remedy: the number is fixed when the namespace is created")
}

// A topic that held accepted work is never silently created again.
func TestALostTopicOfANamespaceIsRefused(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t)
	need := everything()
	need.Made = made(3)
	kafkatest.Create(t, b, need.Topics.Base(3)...)
	kafkatest.DeleteTopic(t, kafkatest.World{Cluster: b}, "sagalog.events")
	kafkatest.DeleteTopic(t, kafkatest.World{Cluster: b}, "sagalog.alerts")
	text := refused(t, doctor.Preflight(kafkatest.Within(t), b, need))
	require.Contains(t, text, "the topic sagalog.events is missing although the namespace sagalog exists")
	require.NotContains(t, text, "alerts", "a missing topic of that kind is created again")
}

// A namespace that cannot be read is refused with the error of its reader.
func TestANamespaceThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t)
	need := everything()
	kafkatest.Create(t, b, need.Topics.Base(3)...)
	need.Made = func(context.Context) (int32, error) { return 0, kerr.InvalidRecord }
	require.Contains(t, refused(t, doctor.Preflight(kafkatest.Within(t), b, need)), "namespace sagalog cannot be read: INVALID_RECORD")
}

// The leader of definitions has moved, and does not know the end of its log yet.
func TestANamespaceThatCannotBeReadYetIsReadAgain(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t)
	need := everything()
	kafkatest.Create(t, b, need.Topics.Base(3)...)
	reads := 0
	need.Made = func(context.Context) (int32, error) {
		if reads++; reads == 1 {
			return 0, kerr.OffsetNotAvailable
		}
		return 3, nil
	}
	need.Agents = nil // otherwise a topic is created, and everything is examined again
	require.NoError(t, doctor.Preflight(kafkatest.Within(t), b, need))
	require.Equal(t, 2, reads)
}

// A cluster that cannot create __consumer_offsets has no groups, and no member would ever be assigned a partition.
func TestAClusterWithoutGroupsIsReported(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{})
	answerBy(g, kmsg.NewPtrFindCoordinatorRequest(), func(resp *kmsg.FindCoordinatorResponse) {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.ErrorCode = "sagalog.owners", kerr.CoordinatorNotAvailable.Code
		resp.Coordinators = append(resp.Coordinators, c)
	})
	findings := failing(doctor.Diagnose(kafkatest.Within(t), connect(t, g, ""), everything()))
	require.Len(t, findings, 1)
	require.Equal(t, doctor.CheckGroups, findings[0].Check)
	require.Contains(t, findings[0].String(), "no broker coordinates the group sagalog.owners. Remedy: check that the topic __consumer_offsets can be created")
}

func TestPreflightEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	c, err := kafka.Connect(at(closedPort(t)))
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, doctor.Preflight(ctx, c, everything()), context.Canceled)
}

func said(findings []doctor.Finding) string {
	var lines []string
	for _, f := range findings {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

func failing(findings []doctor.Finding) []doctor.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f doctor.Finding) bool { return f.Status != doctor.StatusFail })
}

// What brokers say ends with a full stop.
func TestAFindingEndsEachSentenceOnce(t *testing.T) {
	t.Parallel()
	what := "read the topic: " + kerr.UnknownTopicOrPartition.Error()
	require.True(t, strings.HasSuffix(what, "."))
	require.Equal(t, what+" Remedy: create it", doctor.Finding{What: what, Remedy: "create it"}.String())
	create := &kafka.CreateError{Topic: "t", Reason: kerr.PolicyViolation.Error(), Err: kerr.PolicyViolation}
	require.NotContains(t, create.Error(), "..")
	require.Contains(t, create.Error(), ". Remedy: ")
}
