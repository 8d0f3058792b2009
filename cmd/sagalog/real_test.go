package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/acls"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// These tests start a real Apache Kafka, one after another. They are skipped without kafkatest.RealEnv.

// refuse starts a node that must be refused with a remedy, and returns its output.
func (p place) refuse(t *testing.T, args string, say ...string) {
	t.Helper()
	began := time.Now()
	s := p.run(t, append([]string{"serve", "--http", "127.0.0.1:0", "--data", t.TempDir()}, strings.Fields(args)...)...)
	require.Equal(t, 1, s.code())
	for _, part := range say {
		require.Contains(t, s.err.String(), part)
	}
	require.Contains(t, s.err.String(), "Remedy: ")
	for _, v := range p.env {
		if secret, ok := strings.CutPrefix(v, "SAGALOG_SASL_PASSWORD="); ok {
			require.NotContains(t, s.err.String()+s.out.String(), secret)
		}
	}
	t.Logf("after %.1f s: %s", time.Since(began).Seconds(), strings.TrimSpace(s.err.String()))
}

// These brokers authenticate and have access lists.
func TestRealRefusalsOfGuardedBrokers(t *testing.T) {
	k := kafkatest.Up(t, kafkatest.Options{SASL: true, ACLs: true, TLS: true})
	as := func(user, password, mechanism string) place {
		return place{dir: t.TempDir(), env: []string{"SAGALOG_BROKERS=" + k.Bootstrap(), "SAGALOG_TLS_CA=" + k.CAFile(),
			"SAGALOG_SASL=" + mechanism, "SAGALOG_SASL_USER=" + user, "SAGALOG_SASL_PASSWORD=" + password}}
	}
	limited := as(kafkatest.LimitedUser, k.Password(kafkatest.LimitedUser), "SCRAM-SHA-512")
	t.Run("nobody listens", func(t *testing.T) {
		limited.refuse(t, "--start-within 2s --brokers "+freePort(t), "nothing listens there (connection refused)")
	})
	t.Run("plain text", func(t *testing.T) {
		place{dir: t.TempDir()}.refuse(t, "--brokers "+k.Bootstrap(), "the listener speaks TLS, but we spoke plain text", "add --tls")
	})
	t.Run("an unknown authority", func(t *testing.T) {
		place{dir: t.TempDir()}.refuse(t, "--tls --brokers "+k.Bootstrap(), "signed by an authority that we do not know", "--tls-ca FILE")
	})
	t.Run("no user is given", func(t *testing.T) {
		place{dir: t.TempDir()}.refuse(t, "--brokers "+k.Bootstrap()+" --tls-ca "+k.CAFile(), "the listener requires authentication (SASL: ", "add --sasl MECHANISM")
	})
	for _, mechanism := range kafka.Mechanisms() {
		t.Run("a wrong password, "+mechanism, func(t *testing.T) {
			as(kafkatest.LimitedUser, "open-sesame", mechanism).refuse(t, "", "it does not accept the user limited with the given password by "+mechanism, "SAGALOG_SASL_PASSWORD")
		})
	}
	t.Run("an unknown user", func(t *testing.T) {
		as("nobody", "open-sesame", "SCRAM-SHA-256").refuse(t, "", "it does not accept the user nobody")
	})
	t.Run("permissions", func(t *testing.T) { missingPermissions(t, k, limited) })
	t.Run("enough", func(t *testing.T) {
		k.AddUser("reader")
		leastPermissions(t, k, limited, as("reader", k.Password("reader"), "SCRAM-SHA-512"))
	})
}

// missingPermissions leaves out one permission at a time, each in a separate namespace.
func missingPermissions(t *testing.T, k *kafkatest.Real, limited place) {
	all := []string{"READ", "WRITE", "CREATE", "DESCRIBE_CONFIGS"}
	for name, c := range map[string]struct {
		grants func(ns string) []kafkatest.Grant
		say    []string
	}{
		"none": {func(string) []kafkatest.Grant { return nil },
			[]string{"READ on the topics NS.alerts, NS.definitions", "--operation READ --operation WRITE --operation CREATE --operation DescribeConfigs --topic NS. --resource-pattern-type prefixed",
				"--topic dlq.NS. ", "READ on the group NS.owners", "--operation READ --group NS. "}},
		"group": {func(ns string) []kafkatest.Grant {
			return []kafkatest.Grant{{Topic: ns + ".", Operations: all}, {Topic: "dlq." + ns + ".", Operations: all}}
		}, []string{"lacks permissions: READ on the group NS.owners. Remedy: kafka-acls.sh"}},
		"create": {func(ns string) []kafkatest.Grant {
			return []kafkatest.Grant{{Topic: ns + ".", Operations: []string{"READ", "WRITE", "DESCRIBE_CONFIGS"}}, {Topic: "dlq." + ns + ".", Operations: all}, {Group: ns + ".", Operations: all[:1]}}
		}, []string{"lacks permissions: CREATE on the topics NS.alerts, NS.definitions", "or, instead of CREATE, create the topics by:",
			"--create --topic NS.events --partitions 8 --replication-factor 1 --config cleanup.policy=delete"}},
		"write": {func(ns string) []kafkatest.Grant {
			return []kafkatest.Grant{{Topic: ns + ".", Operations: []string{"READ", "CREATE", "DESCRIBE_CONFIGS"}}, {Topic: "dlq." + ns + ".", Operations: all}, {Group: ns + ".", Operations: all[:1]}}
		}, []string{"WRITE on the topics NS.alerts, NS.definitions, NS.events", "--operation WRITE --topic NS. "}},
		"settings": {func(ns string) []kafkatest.Grant {
			return []kafkatest.Grant{{Topic: ns + ".", Operations: all}, {Topic: "dlq." + ns + ".", Operations: all[:3]}, {Group: ns + ".", Operations: all[:1]}}
		}, []string{"DESCRIBE_CONFIGS on the topics dlq.NS.reports, dlq.NS.submissions", "--operation DescribeConfigs --topic dlq.NS. "}},
	} {
		t.Run(name, func(t *testing.T) {
			ns := "no-" + name
			k.Allow(kafkatest.LimitedUser, c.grants(ns)...)
			var say []string
			for _, part := range c.say {
				say = append(say, strings.ReplaceAll(part, "NS", ns))
			}
			limited.refuse(t, "--namespace "+ns, say...)
		})
	}
}

// grant is a permission that `sagalog generate acls` prints, as the test's administrator grants it.
func grant(l acls.Line) kafkatest.Grant {
	g := kafkatest.Grant{Literal: !l.Prefixed, Operations: []string{l.Operation}, Cluster: l.Resource == acls.Cluster}
	switch l.Resource {
	case acls.Topic:
		g.Topic = l.Name
	case acls.Group:
		g.Group = l.Name
	}
	return g
}

func grants(lines []acls.Line) (list []kafkatest.Grant) {
	for _, l := range lines {
		list = append(list, grant(l))
	}
	return list
}

// leastPermissions runs a task with exactly the permissions that `sagalog generate acls` prints, and proves its log with those of a reader.
func leastPermissions(t *testing.T, k *kafkatest.Real, limited, reader place) {
	k.Allow(kafkatest.LimitedUser, grants(acls.For(acls.Scope{Namespace: "sagalog", Agents: []string{"pack"}}, acls.Owner, acls.API, acls.Projector, acls.Agent))...)
	k.Allow("reader", grants(acls.For(acls.Scope{Namespace: "sagalog"}, acls.Reader))...)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"done":true}`) }))
	defer service.Close()
	limited.env = append(limited.env, "SHOP_URL="+service.URL)
	write(t, filepath.Join(limited.dir, "agents", "pack.yaml"), "agent: pack\nhttp: {base: \"${ env.SHOP_URL }\"}\ndo: {method: PUT, path: /pack}\n")
	write(t, filepath.Join(limited.dir, "workflows", "order.yaml"), "workflow: order\nsteps:\n  pack: {agent: pack}\n")
	data := filepath.Join(limited.dir, "data")
	n := limited.start(t, "serve", "--data", data, "--http", "127.0.0.1:0", "--agents", "agents", "--workflows", "workflows", "--node", "n1")
	e := n.endpoints(data)
	submit := limited.run(t, "task", "submit", "--api", e.HTTP, "-w", "order", "--id", "o1", "--wait")
	require.Equal(t, 0, submit.code(), submit.err.String())
	require.Equal(t, 0, limited.run(t, "doctor", "--data", data, "--http", strings.TrimPrefix(e.HTTP, "http://"), "--agents", "agents").code())
	require.Equal(t, 0, n.stop())
	require.NotContains(t, n.err.String(), "AUTHORIZATION_FAILED")
	verify := reader.run(t, "verify")
	require.Equal(t, 0, verify.code(), verify.err.String()+verify.out.String())
	for _, l := range acls.For(acls.Scope{Namespace: "sagalog"}, acls.Reader) {
		began := time.Now()
		k.Forbid("reader", grant(l))
		without := reader.run(t, "verify")
		require.NotEqual(t, 0, without.code(), "without %s on %s the log cannot be proved", l.Operation, l.Name)
		require.Contains(t, without.err.String()+without.out.String(), "on the topic "+l.Name, l.Why)
		k.Allow("reader", grant(l))
		t.Logf("%s on %s: %.1f s", l.Operation, l.Name, time.Since(began).Seconds())
	}
	require.Len(t, hashes(t, limited.run(t, "state", "hash", "--data", data, "--rebuild", "-o", "json")), 8)
}

// These brokers have no authentication. Some topics exist already, and some are missing.
func TestRealRefusalsOfTopics(t *testing.T) {
	k := kafkatest.Up(t, kafkatest.Options{})
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_BROKERS=" + k.Bootstrap()}}
	admin := k.Connect(t, "", "")
	t.Run("settings that lose facts", func(t *testing.T) {
		topics := kafka.Topics{Namespace: "lossy"}
		kafkatest.Create(t, admin, kafka.TopicSpec{Name: topics.Events(), Partitions: 8, MaxMessageBytes: 1 << 20, Compacted: true})
		at.refuse(t, "--namespace lossy", "topic lossy.events: cleanup.policy is compact, must be delete. Remedy: kafka-configs.sh --bootstrap-server "+k.Bootstrap()+
			" --alter --entity-type topics --entity-name lossy.events --add-config cleanup.policy=delete", "max.message.bytes is 1048576, must be at least 2097152")
	})
	t.Run("another number of partitions", func(t *testing.T) {
		kafkatest.Create(t, admin, kafka.Topics{Namespace: "counted"}.Base(3)...)
		at.refuse(t, "--namespace counted", "topic counted.events: partitions is 3, must be 8. Remedy: set --partitions 3")
	})
	t.Run("TLS", func(t *testing.T) {
		at.refuse(t, "--tls", "the listener speaks plain text, but we spoke TLS", "leave out --tls")
	})
	t.Run("SASL", func(t *testing.T) {
		at.env = append(at.env, "SAGALOG_SASL_PASSWORD=open-sesame")
		at.refuse(t, "--sasl PLAIN --sasl-user u", "the listener does not use SASL, but we do", "leave out --sasl")
	})
}

// A cluster that has lost a broker causes a warning, and is no reason to refuse a start.
func TestRealDoctorOfAClusterThatLostABroker(t *testing.T) {
	k := kafkatest.Up(t, kafkatest.Options{Brokers: 3, Set: map[string]string{"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "500"}})
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_BROKERS=" + k.Bootstrap(), "SAGALOG_HTTP=127.0.0.1:0", "SAGALOG_PARTITIONS=2"}}
	data := filepath.Join(at.dir, "sagalog-data")
	first := at.start(t, "serve")
	first.eventually("ready", func() bool { return get(t, first.endpoints(data).HTTP+"/readyz", nil) == http.StatusOK })
	require.Equal(t, 0, first.stop())
	// A busy broker may fall behind, or lose its session, for a moment.
	require.Eventually(t, func() bool {
		p := at.run(t, "doctor", "-o", "jsonl")
		whole := examined(t, p)
		return p.code() == 0 && len(whole[doctor.CheckBrokers][doctor.StatusOK]) == 3 && strings.Count(p.out.String(), `"warn"`) == 1 &&
			strings.Contains(p.out.String(), "no node of namespace sagalog is alive") &&
			strings.Contains(p.out.String(), "all copies are in sync")
	}, stepWait, 500*time.Millisecond)

	k.Kill(2)
	var lost checkup
	require.Eventually(t, func() bool {
		p := at.run(t, "doctor", "-o", "jsonl")
		lost = examined(t, p)
		return p.code() == 0 && len(lost[doctor.CheckBrokers][doctor.StatusOK]) == 2 && len(lost[doctor.CheckReplicas][doctor.StatusWarn]) > 0 &&
			strings.Contains(lost[doctor.CheckReplicas][doctor.StatusWarn][0].Remedy, "start the brokers whose copies are behind: 2")
	}, stepWait, 500*time.Millisecond)
	require.Contains(t, lost[doctor.CheckBrokers][doctor.StatusWarn][0].What, k.Brokers()[1]+": nothing listens there")

	n := at.start(t, "serve")
	n.eventually("ready", func() bool { return get(t, n.endpoints(data).HTTP+"/readyz", nil) == http.StatusOK })
	require.Equal(t, 0, n.stop())
}
