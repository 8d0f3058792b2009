package doctor_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// refusal examines the brokers once and returns the operator's message, which must not contain a secret.
func refusal(t *testing.T, cfg kafka.ClusterConfig) string {
	t.Helper()
	c, err := kafka.Connect(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	err = doctor.Reach(kafkatest.Within(t), c)
	var refused *doctor.PreflightError
	require.ErrorAs(t, err, &refused)
	if cfg.SASL != nil {
		require.NotContains(t, err.Error(), cfg.SASL.Password)
	}
	return err.Error()
}

// An unusable broker is refused with the step that failed and a remedy.
func TestAnUnusableBrokerIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, o kafkatest.GuardedOptions) (*kafkatest.Guarded, kafka.ClusterConfig) {
		g := kafkatest.StartGuarded(t, o)
		return g, g.Config(kafkatest.AdminUser, "SCRAM-SHA-256")
	}
	for name, c := range map[string]struct {
		config func(*testing.T) kafka.ClusterConfig
		say    []string
	}{
		"nothing listens": {func(t *testing.T) kafka.ClusterConfig { return at(closedPort(t)) },
			[]string{"nothing listens there (connection refused)", "start the broker, or correct host and port (--brokers)"}},
		"an unknown name": {func(*testing.T) kafka.ClusterConfig { return at("broker.invalid:9092") },
			[]string{"broker broker.invalid:9092: the name broker.invalid is not known", "DNS"}},
		"silence": {func(t *testing.T) kafka.ClusterConfig {
			return at(listenAnd(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }))
		},
			[]string{"accepts connections but does not answer within 3s"}},
		"no Kafka": {func(t *testing.T) kafka.ClusterConfig {
			return at(listenAnd(t, func(c net.Conn) { _, _ = io.WriteString(c, "220 mail.example ESMTP\r\n") }))
		}, []string{"something listens there, but it is not a Kafka broker"}},
		"it closes the connection": {func(t *testing.T) kafka.ClusterConfig { return at(listenAnd(t, func(net.Conn) {})) },
			[]string{"closes them without an answer", "broker's log"}},
		"plain text to TLS": {func(t *testing.T) kafka.ClusterConfig {
			_, cfg := open(t, kafkatest.GuardedOptions{TLS: true})
			cfg.TLS = nil
			return cfg
		}, []string{"the listener speaks TLS, but we spoke plain text", "add --tls, and --tls-ca FILE"}},
		"TLS to plain text": {func(t *testing.T) kafka.ClusterConfig {
			_, cfg := open(t, kafkatest.GuardedOptions{})
			cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
			return cfg
		}, []string{"the listener speaks plain text, but we spoke TLS", "leave out --tls"}},
		"an unknown authority": {func(t *testing.T) kafka.ClusterConfig {
			_, cfg := open(t, kafkatest.GuardedOptions{TLS: true})
			cfg.TLS.RootCAs = nil
			return cfg
		}, []string{"signed by an authority that we do not know (CN=guarded test authority)", "--tls-ca FILE"}},
		"another name in the certificate": {func(t *testing.T) kafka.ClusterConfig {
			_, cfg := open(t, kafkatest.GuardedOptions{TLS: true})
			cfg.TLS.ServerName = "kafka.example"
			return cfg
		}, []string{"its certificate is for 127.0.0.1, and not for kafka.example", "--tls-server-name"}},
		"no certificate of ours": {func(t *testing.T) kafka.ClusterConfig {
			_, cfg := open(t, kafkatest.GuardedOptions{TLS: true, ClientCertificate: true})
			return cfg
		}, []string{"it requires a certificate, and we show none", "--tls-cert FILE and --tls-key FILE"}},
		"a wrong password, SCRAM": {func(t *testing.T) kafka.ClusterConfig {
			_, cfg := open(t, kafkatest.GuardedOptions{SASL: true})
			cfg.SASL.Password = "open-sesame"
			return cfg
		}, []string{"it does not accept the user admin with the given password by SCRAM-SHA-256", "SAGALOG_SASL_PASSWORD", "kafka-configs.sh", "--entity-name admin"}},
		"a wrong password, PLAIN": {func(t *testing.T) kafka.ClusterConfig {
			g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true})
			cfg := g.Config(kafkatest.AdminUser, "PLAIN")
			cfg.SASL.Password = "open-sesame"
			return cfg
		}, []string{"it does not accept the user admin with the given password by PLAIN", "--sasl-password-file"}},
		"a broker that answers a wrong password": {func(t *testing.T) kafka.ClusterConfig {
			g, cfg := open(t, kafkatest.GuardedOptions{SASL: true})
			answerBy(g, kmsg.NewPtrSASLAuthenticateRequest(), func(resp *kmsg.SASLAuthenticateResponse) { resp.ErrorCode = kerr.SaslAuthenticationFailed.Code })
			return cfg
		}, []string{"it does not accept the user admin"}},
		"an unknown mechanism": {func(t *testing.T) kafka.ClusterConfig {
			g, cfg := open(t, kafkatest.GuardedOptions{SASL: true})
			answerBy(g, kmsg.NewPtrSASLHandshakeRequest(), func(resp *kmsg.SASLHandshakeResponse) {
				resp.ErrorCode, resp.SupportedMechanisms = kerr.UnsupportedSaslMechanism.Code, []string{"GSSAPI", "PLAIN"}
			})
			return cfg
		}, []string{"does not support the mechanism SCRAM-SHA-256; it supports GSSAPI, PLAIN", "(--sasl)"}},
		"SASL on a listener without it": {func(t *testing.T) kafka.ClusterConfig {
			g, cfg := open(t, kafkatest.GuardedOptions{})
			cfg.SASL = &kafka.SASL{Mechanism: "PLAIN", User: "u", Password: "open-sesame"}
			answerBy(g, kmsg.NewPtrSASLHandshakeRequest(), func(resp *kmsg.SASLHandshakeResponse) { resp.ErrorCode = kerr.IllegalSaslState.Code })
			return cfg
		}, []string{"the listener does not use SASL", "leave out --sasl"}},
		"no SASL on a listener that requires it": {func(t *testing.T) kafka.ClusterConfig {
			_, cfg := open(t, kafkatest.GuardedOptions{SASL: true})
			cfg.SASL = nil
			return cfg
		}, []string{"requires authentication (SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512)", "add --sasl MECHANISM, --sasl-user"}},
		"an old broker": {func(t *testing.T) kafka.ClusterConfig {
			_, cfg := open(t, kafkatest.GuardedOptions{Options: []kfake.Opt{kfake.MaxVersions(kversion.V2_3_0())}})
			return cfg
		}, []string{"is too old: it lacks Metadata of version 10 (IDs of topics), LeaveGroup of version 3", "run Apache Kafka 2.8 or newer"}},
		"an advertised address that cannot be reached": {func(t *testing.T) kafka.ClusterConfig {
			g, cfg := open(t, kafkatest.GuardedOptions{})
			cfg.Brokers = []string{"bootstrap.example:9092"}
			cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr != "bootstrap.example:9092" {
					return nil, errors.New("no route to host")
				}
				return (&net.Dialer{}).DialContext(ctx, network, g.Bootstrap())
			}
			return cfg
		}, []string{"no broker can be reached at the address that it advertises", "advertised.listeners"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := refusal(t, c.config(t))
			for _, part := range c.say {
				require.Contains(t, text, part)
			}
			require.Contains(t, text, "Remedy: ")
		})
	}
}

// Every mechanism works, and so does a client certificate if one is required.
func TestABrokerThatAcceptsUsIsReached(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, TLS: true, ClientCertificate: true})
	for _, mechanism := range kafka.Mechanisms() {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			cfg := g.Config(kafkatest.LimitedUser, mechanism)
			pair, err := tls.LoadX509KeyPair(g.CertFile, g.KeyFile)
			require.NoError(t, err)
			cfg.TLS.Certificates = []tls.Certificate{pair}
			c, err := kafka.Connect(cfg)
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, doctor.Reach(t.Context(), c))
			require.NoError(t, c.Ping(kafkatest.Within(t)))
		})
	}
}

// One broker that answers is enough to start; the others are warnings.
func TestOneOfTwoBrokersDownIsAWarning(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{})
	down := closedPort(t)
	c, err := kafka.Connect(kafka.ClusterConfig{Brokers: []string{down, g.Bootstrap()}})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, doctor.Reach(t.Context(), c))
	found := doctor.Diagnose(t.Context(), c, doctor.Need{Topics: kafka.Topics{Namespace: "sagalog"}, Partitions: 2, API: true})
	require.Equal(t, doctor.StatusWarn, found[0].Status)
	require.Contains(t, found[0].What, "broker "+down+": nothing listens there")
	require.Equal(t, doctor.StatusOK, found[1].Status)
}

// A broker that starts while Preflight waits does not make it fail.
func TestPreflightWaitsForABrokerThatIsStarting(t *testing.T) {
	t.Parallel()
	addr := closedPort(t)
	c, err := kafka.Connect(at(addr))
	require.NoError(t, err)
	defer c.Close()
	done := make(chan error)
	go func() {
		done <- doctor.Preflight(t.Context(), c, doctor.Need{Topics: kafka.Topics{Namespace: "sagalog"}, Partitions: 2, Projector: true})
	}()
	kafkatest.StartBroker(t, embedded.Config{Addr: addr})
	require.NoError(t, <-done)
}

// A broker that does not start is refused, long before a caller gives up.
func TestPreflightGivesUp(t *testing.T) {
	t.Parallel()
	c, err := kafka.Connect(at(closedPort(t)))
	require.NoError(t, err)
	defer c.Close()
	err = doctor.Preflight(kafkatest.Within(t), c, doctor.Need{Topics: kafka.Topics{Namespace: "sagalog"}, Partitions: 2, Owner: true})
	require.ErrorContains(t, err, "connection refused")
}

func at(addr string) kafka.ClusterConfig { return kafka.ClusterConfig{Brokers: []string{addr}} }

// closedPort returns an address on which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// listenAnd accepts connections, calls a function with each and closes it.
func listenAnd(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go func() {
				do(c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// answerBy makes change alter a broker's answers to requests of one kind.
func answerBy[T kmsg.Response](g *kafkatest.Guarded, req kmsg.Request, change func(T)) {
	g.Cluster.ControlKey(req.Key(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		g.Cluster.KeepControl()
		resp := r.ResponseKind()
		change(resp.(T))
		return resp, nil, true
	})
}
