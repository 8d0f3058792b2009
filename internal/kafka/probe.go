package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// probeWait bounds the look at one broker. A healthy one answers within milliseconds, over the world within a second;
// what takes longer would stall the engine too.
const probeWait = 3 * time.Second

// The versions of requests that a wire asks by: their answers have the old header, and Kafka 4 still speaks them.
const (
	askVersions     = 0
	askHandshake    = 1
	askAuthenticate = 1
	askMetadata     = 5
)

// probe looks at one address, step by step: name, TCP, TLS, Kafka, SASL.
type probe struct {
	cfg  *ClusterConfig
	addr string
	// clear speaks plain text although TLS is configured, to find out whether the listener does.
	clear bool
}

// reached is what a broker that can be worked with told.
type reached struct {
	versions *kmsg.ApiVersionsResponse
	brokers  []kmsg.MetadataResponseBroker
	// security says how we got in.
	security string
}

// fault is why a broker cannot be worked with.
type fault struct {
	what, remedy string
	// passing is true where the broker may be starting just now.
	passing bool
	// security is true where the broker was reached and did not let us in.
	security bool
}

func (f *fault) finding(addr string) Finding {
	check := CheckBrokers
	if f.security {
		check = CheckSecurity
	}
	return Finding{Check: check, Status: StatusFail, What: "broker " + addr + ": " + f.what, Remedy: f.remedy, passing: f.passing}
}

// reach goes as far as it gets.
func (p *probe) reach(ctx context.Context) (*reached, *fault) {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	w, secured, f := p.connect(ctx)
	if f != nil {
		return nil, f
	}
	defer w.close()
	answer, err := w.ask(ctx, kmsg.NewPtrApiVersionsRequest(), askVersions)
	if err != nil {
		return nil, p.noKafka(ctx, err)
	}
	r := &reached{versions: answer.(*kmsg.ApiVersionsResponse), security: secured}
	if !speaks(r.versions, kmsg.Produce, 0) {
		return nil, &fault{what: "this is the listener of a controller, which takes no records",
			remedy: "give the port of a listener of the brokers (--brokers)"}
	}
	if f := p.authenticate(ctx, w); f != nil {
		return nil, f
	}
	if p.cfg.SASL != nil {
		r.security += ", " + p.cfg.SASL.Mechanism + " as " + p.cfg.principal()
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none, where nil would mean all
	answer, err = w.ask(ctx, req, askMetadata)
	if err != nil {
		return nil, p.noAnswer(ctx, err)
	}
	r.brokers = answer.(*kmsg.MetadataResponse).Brokers
	return r, nil
}

// connect opens the connection and says how it is secured.
func (p *probe) connect(ctx context.Context) (*wire, string, *fault) {
	dial := (&net.Dialer{}).DialContext
	if p.cfg.Dialer != nil {
		dial = p.cfg.Dialer
	}
	conn, err := dial(ctx, "tcp", p.addr)
	if err != nil {
		return nil, "", p.noConnection(err)
	}
	if p.cfg.TLS == nil || p.cfg.Dialer != nil || p.clear {
		return newWire(conn, p.cfg.ClientID), "plain text", nil
	}
	secured := tls.Client(conn, p.tlsConfig())
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error is the one to tell
		return nil, "", p.noHandshake(ctx, err)
	}
	return newWire(secured, p.cfg.ClientID), tls.VersionName(secured.ConnectionState().Version), nil
}

// tlsConfig is what the client makes of the configuration for this address.
func (p *probe) tlsConfig() *tls.Config {
	cfg := p.cfg.TLS.Clone()
	if host, _, err := net.SplitHostPort(p.addr); err == nil && cfg.ServerName == "" {
		cfg.ServerName = host
	}
	return cfg
}

func (p *probe) noConnection(err error) *fault {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return &fault{what: fmt.Sprintf("the name %s is not known (%s)", dns.Name, dns.Err), passing: true,
			remedy: "correct the name (--brokers), or make it known to this machine (DNS, /etc/hosts)"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &fault{what: "nothing listens there (connection refused)", passing: true,
			remedy: "start the broker, or correct host and port (--brokers)"}
	case timedOut(err):
		return &fault{what: fmt.Sprintf("no answer within %s", probeWait), passing: true,
			remedy: "correct host and port (--brokers), and let no firewall drop what goes there"}
	}
	return &fault{what: err.Error(), remedy: "correct host and port (--brokers), or this machine's network", passing: true}
}

func timedOut(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

// hungUp says that the other side closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// noKafka explains why the first request got no answer that Kafka gives.
func (p *probe) noKafka(ctx context.Context, err error) *fault {
	if f := refusedCertificate(err); f != nil {
		return f
	}
	if p.cfg.TLS == nil && p.cfg.Dialer == nil && p.speaksTLS(ctx) {
		return &fault{security: true, what: "the listener speaks TLS, and we spoke plain text",
			remedy: "add --tls, and --tls-ca FILE where an authority of your own signed the broker's certificate; or give the port of a plain listener (--brokers)"}
	}
	if errors.Is(err, errNotKafka) {
		return &fault{what: "something listens there, and it is no Kafka broker", remedy: "correct host and port (--brokers)"}
	}
	return p.noAnswer(ctx, err)
}

// speaksTLS asks anew whether the listener understands TLS. Whose certificate it shows does not matter: nothing is told it.
func (p *probe) speaksTLS(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeWait) // the first question may have used up its time
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	_, refused := alert(err) // a refusal is spoken in TLS too
	return err == nil || refused
}

// noAnswer explains a connection that was made and gives no answers.
func (p *probe) noAnswer(_ context.Context, err error) *fault {
	switch {
	case timedOut(err):
		return &fault{what: fmt.Sprintf("it takes connections and gives no answer within %s", probeWait), passing: true,
			remedy: "look at the broker: it may be overloaded, or stopped in the middle of its work"}
	case hungUp(err):
		return &fault{what: "it takes connections and closes them without an answer", passing: true,
			remedy: "look into the broker's log, which says why; it may be starting or stopping"}
	}
	return &fault{what: err.Error(), passing: true, remedy: "look into the broker's log"}
}

// speaks tells whether a broker knows a request in at least a version.
func speaks(v *kmsg.ApiVersionsResponse, key kmsg.Key, least int16) bool {
	for _, k := range v.ApiKeys {
		if k.ApiKey == key.Int16() {
			return k.MaxVersion >= least
		}
	}
	return false
}

// principal is how Kafka's access lists call us.
func (c *ClusterConfig) principal() string {
	switch {
	case c.SASL != nil:
		return "User:" + c.SASL.User
	case c.TLS != nil && len(c.TLS.Certificates) > 0 && c.TLS.Certificates[0].Leaf != nil:
		return "User:" + c.TLS.Certificates[0].Leaf.Subject.String()
	}
	return "User:ANONYMOUS"
}

// bootstrap is the beginning of Kafka's own commands.
func (c *ClusterConfig) bootstrap(script string) string {
	s := script + " --bootstrap-server " + strings.Join(c.Brokers, ",")
	if c.TLS != nil || c.SASL != nil {
		s += " --command-config ADMIN.properties"
	}
	return s
}
