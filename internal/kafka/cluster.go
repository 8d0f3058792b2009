package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/batch"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The settings that all clients share.
const (
	// requestOverhead is how long a broker may take beyond the time limit of the request. With the client's default of 10 s, a dead
	// broker would be noticed long after a take-over should have ended.
	requestOverhead = 2 * time.Second
	produceTimeout  = 2 * time.Second
	// connIdle is below the 10 minutes after which brokers close idle connections, so that both do not close at the same time.
	connIdle = 9 * time.Minute
	// metadataMin bounds how often a client asks for leaders. The default of 5 s would delay a take-over by as much.
	metadataMin  = 250 * time.Millisecond
	metadataMax  = time.Minute
	backoffFirst = 20 * time.Millisecond
	backoffMax   = time.Second
)

// Dialer opens a connection. It is the DialContext of a net.Dialer or the dialer of an embedded.VirtualNetwork.
type Dialer func(ctx context.Context, network, host string) (net.Conn, error)

// SASL says how to authenticate.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism, User, Password string
}

// ClusterConfig says how to reach a cluster.
type ClusterConfig struct {
	// Brokers are host:port of some brokers. The client learns the others from them.
	Brokers []string
	// Dialer replaces TCP, for a VirtualNetwork or the embedded broker of this process. With it TLS is ignored.
	Dialer Dialer
	// TLS is nil for plain text.
	TLS *tls.Config
	// SASL is nil for no authentication.
	SASL *SASL
	// ClientID names this process in the broker's logs and quotas; default "sagalog".
	ClientID string
	// Role is what this process is, for errors about missing permissions, as `sagalog generate acls --role` takes it, with further flags: owner,api,
	// or agent --agent pack.
	Role   string
	Logger *slog.Logger
	// Embedded marks the embedded broker on this machine: nothing is compressed, and each record has one copy.
	Embedded bool
	// Hooks are given to each client, for metrics. They implement some of kgo's hook interfaces.
	Hooks []any
}

func (c *ClusterConfig) validate() error {
	var errs []error
	if len(c.Brokers) == 0 {
		errs = append(errs, errors.New("no broker address is given"))
	}
	for _, b := range c.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			errs = append(errs, fmt.Errorf("broker address %q is not host:port", b))
		}
	}
	if _, err := c.SASL.Authenticator(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Mechanisms returns the SASL mechanisms that we support, safest first.
func Mechanisms() []string { return []string{"SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"} }

// Authenticator returns the client's SASL mechanism, or nil if s is nil.
func (s *SASL) Authenticator() (sasl.Mechanism, error) {
	if s == nil {
		return nil, nil
	}
	auth := scram.Auth{User: s.User, Pass: s.Password}
	switch strings.ToUpper(s.Mechanism) {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return auth.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return auth.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("SASL mechanism %q is not PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", s.Mechanism)
}

// Script is the beginning of one of Kafka's own commands, for an administrator to run.
func (c *ClusterConfig) Script(name string) string {
	s := name + " --bootstrap-server " + strings.Join(c.Brokers, ",")
	if c.TLS != nil || c.SASL != nil {
		s += " --command-config ADMIN.properties"
	}
	return s
}

// Cluster is a connection to a cluster. It holds one client for requests other than produce, fetch and group requests; producers, readers
// and groups open their own. It is safe for concurrent use.
type Cluster struct {
	cfg    ClusterConfig
	base   []kgo.Opt
	dialer *dialer
	client *kgo.Client
	admin  *kadm.Client
	// unpack is the bounded decompressor of all readers.
	unpack batch.Unpacker
}

// Connect returns a Cluster. It does not wait for a broker: Ping does.
func Connect(cfg ClusterConfig) (*Cluster, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.ClientID == "" {
		cfg.ClientID = "sagalog"
	}
	cfg.Logger = orDiscard(cfg.Logger)
	c := &Cluster{cfg: cfg, dialer: newDialer(&cfg)}
	c.base = baseOpts(cfg, c.dialer)
	client, err := c.open(kgo.MaxDecompressBatchBytes(maxDecompress))
	if err != nil {
		return nil, err
	}
	c.client, c.admin = client, kadm.NewClient(client)
	if c.unpack, err = batch.UnpackerOf(client); err != nil {
		client.Close()
		return nil, err
	}
	return c, nil
}

// NewUnpacker returns an unpacker with the limits of a Cluster, for batches that no Cluster reads.
func NewUnpacker() (batch.Unpacker, error) {
	client, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(maxDecompress)) // which dials nobody
	if err != nil {
		return batch.Unpacker{}, err
	}
	defer client.Close()
	return batch.UnpackerOf(client)
}

func baseOpts(cfg ClusterConfig, d *dialer) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.Dialer(d.dial),
		kgo.ClientID(cfg.ClientID),
		kgo.WithLogger(newClientLog(cfg.Logger)),
		kgo.RequestTimeoutOverhead(requestOverhead),
		kgo.ConnIdleTimeout(connIdle),
		kgo.MetadataMinAge(metadataMin),
		kgo.MetadataMaxAge(metadataMax),
		kgo.RetryBackoffFn(backoff),
		// The broker may ask the client to push metrics. We do not want to send any, and closing would wait for the last push.
		kgo.DisableClientMetrics(),
	}
	for _, h := range cfg.Hooks {
		opts = append(opts, kgo.WithHooks(h))
	}
	if m, _ := cfg.SASL.Authenticator(); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts
}

// backoff grows from backoffFirst to backoffMax; the jitter keeps the clients of a restarted broker apart.
func backoff(try int) time.Duration {
	d := backoffMax
	if shift := try - 1; shift >= 0 && shift < 6 {
		d = min(backoffFirst<<shift, backoffMax)
	}
	return d/2 + rand.N(d/2+1)
}

func (c *Cluster) open(opts ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, c.base...), opts...)...)
	if err != nil {
		return nil, fmt.Errorf("configure kafka client: %w", err)
	}
	return client, nil
}

// Request sends a request through the shared client, to whichever broker must answer it. So a Cluster is a kmsg.Requestor.
func (c *Cluster) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return c.client.Request(ctx, req)
}

// Config returns the configuration that was passed to Connect.
func (c *Cluster) Config() *ClusterConfig { return &c.cfg }

// Ping returns when a broker has answered, or with the last error when ctx ends.
func (c *Cluster) Ping(ctx context.Context) error {
	if err := c.client.Ping(ctx); err != nil {
		return fmt.Errorf("reach a broker of %s: %w", strings.Join(c.cfg.Brokers, ","), fromClient(err))
	}
	return nil
}

// Brokers returns the configured addresses.
func (c *Cluster) Brokers() []string { return c.cfg.Brokers }

// Embedded reports whether this is the embedded broker.
func (c *Cluster) Embedded() bool { return c.cfg.Embedded }

// Close ends the shared client. Producers, readers and groups opened from the cluster must be closed separately.
func (c *Cluster) Close() {
	c.client.Close()
	c.dialer.close()
}

// closeClient ends the client's context before it closes the client, so that it does not wait for a broker.
func closeClient(client *kgo.Client, cancel context.CancelFunc) {
	cancel()
	client.Close()
}
