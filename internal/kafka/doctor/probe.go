package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// probeWait bounds the examination of one broker. A healthy one answers within milliseconds, or within a second across the world. One
// that takes longer would stall the engine too.
const probeWait = 3 * time.Second

// The versions of the requests sent by conn: their responses have the old header, and Kafka 4 still supports them.
const (
	askVersions     = 0
	askHandshake    = 1
	askAuthenticate = 1
	askMetadata     = 5
)

// probe examines one address, step by step: name, TCP, TLS, Kafka, SASL.
type probe struct {
	cfg  *kafka.ClusterConfig
	addr string
	// clear uses plain text although TLS is configured, to find out whether the listener uses it too.
	clear bool
}

// reached is the answer of a usable broker.
type reached struct {
	versions *kmsg.ApiVersionsResponse
	brokers  []kmsg.MetadataResponseBroker
	// security says how the connection is secured and authenticated.
	security string
}

// fault is the reason why a broker is not usable.
type fault struct {
	what, remedy string
	// passing says that the broker may just be starting.
	passing bool
	// security says that the broker was reached but rejected us.
	security bool
}

func (f *fault) finding(addr string) Finding {
	check := CheckBrokers
	if f.security {
		check = CheckSecurity
	}
	return Finding{Check: check, Status: StatusFail, What: "broker " + addr + ": " + f.what, Remedy: f.remedy, passing: f.passing}
}

// reach goes through all steps until one fails.
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
		return nil, &fault{what: "this is the listener of a controller, which accepts no records",
			remedy: "give the port of a listener of the brokers (--brokers)"}
	}
	if f := p.authenticate(ctx, w); f != nil {
		return nil, f
	}
	if p.cfg.SASL != nil {
		r.security += ", " + p.cfg.SASL.Mechanism + " as " + p.cfg.Principal()
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; nil would mean all
	answer, err = w.ask(ctx, req, askMetadata)
	if err != nil {
		return nil, p.noAnswer(err)
	}
	r.brokers = answer.(*kmsg.MetadataResponse).Brokers
	return r, nil
}

// connect opens the connection and returns how it is secured.
func (p *probe) connect(ctx context.Context) (*conn, string, *fault) {
	dial := (&net.Dialer{}).DialContext
	if p.cfg.Dialer != nil {
		dial = p.cfg.Dialer
	}
	conn, err := dial(ctx, "tcp", p.addr)
	if err != nil {
		return nil, "", p.noConnection(err)
	}
	if p.cfg.TLS == nil || p.cfg.Dialer != nil || p.clear {
		return newConn(conn, p.cfg.ClientID), "plain text", nil
	}
	secured := tls.Client(conn, p.tlsConfig())
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the error of the handshake is the one to report
		return nil, "", p.noHandshake(ctx, err)
	}
	return newConn(secured, p.cfg.ClientID), tls.VersionName(secured.ConnectionState().Version), nil
}

// tlsConfig is the configuration that the client would use for this address.
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
			remedy: "correct the name (--brokers), or make this machine resolve it (DNS, /etc/hosts)"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &fault{what: "nothing listens there (connection refused)", passing: true,
			remedy: "start the broker, or correct host and port (--brokers)"}
	case timedOut(err):
		return &fault{what: fmt.Sprintf("no answer within %s", probeWait), passing: true,
			remedy: "correct host and port (--brokers), and check that no firewall drops the connection"}
	}
	return &fault{what: err.Error(), remedy: "correct host and port (--brokers), or this machine's network", passing: true}
}

func timedOut(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

// hungUp reports whether the other side closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// noKafka explains why there was no Kafka response to the first request.
func (p *probe) noKafka(ctx context.Context, err error) *fault {
	if f := refusedCertificate(err); f != nil {
		return f
	}
	if p.cfg.TLS == nil && p.cfg.Dialer == nil && p.speaksTLS(ctx) {
		return &fault{security: true, what: "the listener speaks TLS, but we spoke plain text",
			remedy: "add --tls, and --tls-ca FILE if a private authority signed the broker's certificate; or give the port of a plain listener (--brokers)"}
	}
	if errors.Is(err, errNotKafka) {
		return &fault{what: "something listens there, but it is not a Kafka broker", remedy: "correct host and port (--brokers)"}
	}
	return p.noAnswer(err)
}

// speaksTLS uses another connection to find out whether the listener uses TLS. Its certificate does not matter: no data is
// sent.
func (p *probe) speaksTLS(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeWait) // the first request may have used up its time
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	_, refused := alert(err) // a rejection is TLS too
	return err == nil || refused
}

// noAnswer explains a connection without responses.
func (p *probe) noAnswer(err error) *fault {
	switch {
	case timedOut(err):
		return &fault{what: fmt.Sprintf("it accepts connections but does not answer within %s", probeWait), passing: true,
			remedy: "look at the broker: it may be overloaded, or suspended"}
	case hungUp(err):
		return &fault{what: "it accepts connections and closes them without an answer", passing: true,
			remedy: "look into the broker's log, which says why; the broker may be starting or stopping"}
	}
	return &fault{what: err.Error(), passing: true, remedy: "look into the broker's log"}
}

// speaks reports whether a broker supports a request in the given version or a later one.
func speaks(v *kmsg.ApiVersionsResponse, key kmsg.Key, least int16) bool {
	for _, k := range v.ApiKeys {
		if k.ApiKey == key.Int16() {
			return k.MaxVersion >= least
		}
	}
	return false
}
