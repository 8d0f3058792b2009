package kafka_test

import (
	"context"
	"crypto/tls"
	"strconv"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// These tests start real Apache Kafkas, one after another, so that two cores suffice. They run the suite, and tests that need several
// brokers or brokers with authentication. Without kafkatest.RealEnv they are skipped.

// quickFailover is how soon the cluster notices a killed broker. With the default of 9 s each kill would take that much longer; with less
// than this a busy machine makes the cluster fence brokers that live, one after another.
var quickFailover = map[string]string{"broker.session.timeout.ms": "5000", "broker.heartbeat.interval.ms": "500"}

var mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

func TestRealOneBroker(t *testing.T) {
	k := kafkatest.Up(t, kafkatest.Options{})
	behaveOn(t, as(k, "", ""))
}

func as(k *kafkatest.Real, user, mechanism string) func(testing.TB) *kafka.Cluster {
	return func(t testing.TB) *kafka.Cluster { return k.Connect(t, user, mechanism) }
}

func TestRealThreeBrokers(t *testing.T) {
	k := kafkatest.Up(t, kafkatest.Options{Brokers: 3, Set: quickFailover})
	// This comes first: with the topics of all other tests a broker takes twice as long to start.
	t.Run("leaders move under an owner, a reader and a group", func(t *testing.T) { leadersMove(t, k) })
	t.Run("each topic has three copies, of which two are needed", func(t *testing.T) {
		threeCopies(t, newWorld(k.Connect(t, "", "")))
	})
	t.Run("the audit refuses what loses facts with a broker", func(t *testing.T) {
		auditRefusesCopies(t, newWorld(k.Connect(t, "", "")))
	})
	t.Run("a topic created while a broker is down has three copies too", func(t *testing.T) {
		k.Kill(2)
		threeCopies(t, newWorld(k.Connect(t, "", "")))
		k.Start(2)
		k.AwaitInSync()
	})
	t.Run("suite", func(t *testing.T) { behaveOn(t, as(k, "", "")) })
}

func threeCopies(t *testing.T, w world) {
	specs := append(w.Topics.Base(3), w.Topics.WorkSpec("package", 3))
	require.NoError(t, kafka.EnsureTopics(kafkatest.Within(t), w.Cluster, specs...))
	require.NoError(t, doctor.Audit(kafkatest.Within(t), w.Cluster, specs...))
	for _, s := range specs {
		placements := kafka.Placements(t, w.Cluster, s.Name)
		require.Len(t, placements, int(s.Partitions))
		for _, p := range placements {
			require.Equal(t, 3, p.Replicas, s.Name)
		}
		settings := kafka.Settings(t, w.Cluster, s.Name)
		require.Equal(t, "2", settings["min.insync.replicas"], s.Name)
		require.Equal(t, "false", settings["unclean.leader.election.enable"], s.Name)
		keeps := "-1"
		if s.Retention > 0 {
			keeps = strconv.FormatInt(s.Retention.Milliseconds(), 10)
		}
		require.Equal(t, keeps, settings["retention.ms"], s.Name)
	}
}

func auditRefusesCopies(t *testing.T, w world) {
	w.Create(t)
	w.refusesSetting(t, "min.insync.replicas", "1")
	w.refusesSetting(t, "unclean.leader.election.enable", "true")

	// Another program has created a topic with one replica and a retention of a week.
	kafka.CreateTopic(t, w.Cluster, w.Topics.Reports(), 2)
	spec := kafka.TopicSpec{Name: w.Topics.Reports(), Partitions: 2, MaxMessageBytes: kafka.MaxMessageBytes}
	require.NoError(t, kafka.EnsureTopics(kafkatest.Within(t), w.Cluster, spec), "the topic is left as it is")
	w.refused(t, map[string]string{
		"retention.ms": "604800000", "max.message.bytes": "1048588",
	}, spec)
	few, _ := doctor.Inspect(kafkatest.Within(t), w.Cluster, spec)
	require.Contains(t, few.What, spec.Name+" (1)")
}

func TestRealSASL(t *testing.T) {
	k := kafkatest.Up(t, kafkatest.Options{SASL: true, ACLs: true})
	for _, mechanism := range mechanisms {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			behaveOn(t, as(k, kafkatest.AdminUser, mechanism))
		})
	}
}

func TestRealTLS(t *testing.T) {
	k := kafkatest.Up(t, kafkatest.Options{TLS: true})
	t.Run("suite", func(t *testing.T) { behaveOn(t, as(k, "", "")) })
	t.Run("a broker of another authority is not trusted", func(t *testing.T) {
		cfg := k.Config("", "")
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		require.ErrorContains(t, ping(t, cfg), "certificate")
	})
	t.Run("without TLS there is no answer", func(t *testing.T) {
		cfg := k.Config("", "")
		cfg.TLS = nil
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.Error(t, pingWithin(ctx, t, cfg))
	})
}

func TestRealSASLOverTLS(t *testing.T) {
	k := kafkatest.Up(t, kafkatest.Options{SASL: true, TLS: true})
	for _, mechanism := range mechanisms {
		t.Run(mechanism, func(t *testing.T) {
			for _, user := range []string{kafkatest.AdminUser, kafkatest.LimitedUser} {
				w := newWorld(k.Connect(t, user, mechanism))
				appendIsContiguous(t, w)
			}
		})
		t.Run(mechanism+" with a wrong password", func(t *testing.T) {
			cfg := k.Config("", mechanism)
			cfg.SASL.Password = "wrong"
			require.ErrorContains(t, ping(t, cfg), "SASL_AUTHENTICATION_FAILED")
		})
	}
}

func ping(t *testing.T, cfg kafka.ClusterConfig) error {
	t.Helper()
	return pingWithin(kafkatest.Within(t), t, cfg)
}

func pingWithin(ctx context.Context, t *testing.T, cfg kafka.ClusterConfig) error {
	t.Helper()
	c, err := kafka.Connect(cfg)
	require.NoError(t, err)
	defer c.Close()
	return c.Ping(ctx)
}
