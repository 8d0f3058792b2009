package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// noHandshake explains a TLS handshake that failed.
func (p *probe) noHandshake(ctx context.Context, err error) *fault {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return &fault{security: true, what: "its certificate is signed by an authority that we do not know" + issuer(unknown.Cert),
			remedy: "give that authority's certificate by --tls-ca FILE"}
	case errors.As(err, &host):
		return &fault{security: true, what: fmt.Sprintf("its certificate is for %s, and not for %s", bearer(host.Certificate), host.Host),
			remedy: "use a name of its certificate (--brokers, and advertised.listeners of the broker), or say which name to expect by --tls-server-name"}
	case errors.As(err, &invalid):
		return &fault{security: true, what: "its certificate is not valid: " + err.Error(),
			remedy: "renew the broker's certificate; if it is valid, set the clock of this machine"}
	}
	if f := refusedCertificate(err); f != nil {
		return f
	}
	if (errors.As(err, &record) || hungUp(err) || timedOut(err)) && p.speaksPlain(ctx) {
		return &fault{security: true, what: "the listener speaks plain text, but we spoke TLS",
			remedy: "leave out --tls and the --tls-... flags, or give the port of the TLS listener (--brokers)"}
	}
	if errors.As(err, &record) {
		return &fault{what: "something listens there, but it does not use TLS", remedy: "correct host and port (--brokers)"}
	}
	if hungUp(err) || timedOut(err) {
		return p.noAnswer(err)
	}
	return &fault{security: true, what: "the TLS handshake failed: " + err.Error(), remedy: "look into the broker's log, which says why"}
}

func issuer(cert *x509.Certificate) string {
	if cert == nil {
		return ""
	}
	return " (" + cert.Issuer.String() + ")"
}

func bearer(cert *x509.Certificate) string {
	names := append([]string{}, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no host at all (it has no subject alternative name)"
	}
	return strings.Join(names, ", ")
}

// speaksPlain uses another connection to find out whether the listener answers the first Kafka request in plain text. It sends no
// secret.
func (p *probe) speaksPlain(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeWait) // the handshake may have used up its time
	defer cancel()
	plain := &probe{cfg: p.cfg, addr: p.addr, clear: true}
	w, _, f := plain.connect(ctx)
	if f != nil {
		return false
	}
	defer w.close()
	_, err := w.ask(ctx, kmsg.NewPtrApiVersionsRequest(), askVersions)
	return err == nil
}

// alert returns the alert with which the other side ended TLS (RFC 8446, 6.2), under its name in crypto/tls.
func alert(err error) (string, bool) {
	var remote *net.OpError
	if !errors.As(err, &remote) || remote.Op != "remote error" {
		return "", false
	}
	return strings.TrimPrefix(remote.Err.Error(), "tls: "), true
}

// The alerts of a broker that requires a certificate, or a different one.
var certificateAlerts = map[string]string{
	"bad certificate":               "it rejects our certificate, or requires one and we show none",
	"unsupported certificate":       "it rejects our certificate: it does not support certificates of that kind",
	"revoked certificate":           "it rejects our certificate: it is revoked",
	"expired certificate":           "it rejects our certificate: it has expired",
	"unknown certificate":           "it rejects our certificate",
	"unknown certificate authority": "it does not know the authority that signed our certificate",
	"certificate required":          "it requires a certificate, and we show none",
}

// refusedCertificate explains an alert of the broker, and returns nil for other errors. With TLS 1.3 the alert comes after the handshake,
// instead of the first response.
func refusedCertificate(err error) *fault {
	name, ok := alert(err)
	if !ok {
		return nil
	}
	what, ok := certificateAlerts[name]
	if !ok {
		return &fault{security: true, what: "it ended the TLS handshake: " + name,
			remedy: "look into the broker's log, and at its ssl.enabled.protocols and ssl.client.auth; set our certificate by --tls-cert and --tls-key"}
	}
	return &fault{security: true, what: what,
		remedy: "set a certificate that the broker trusts by --tls-cert FILE and --tls-key FILE"}
}
