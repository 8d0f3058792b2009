package httpagent

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v4"
)

// tls reads how a binding trusts its service, and how it proves itself. There is no way to trust any certificate.
func (p *parser) tls(n *yaml.Node, b *Binding) {
	var ca, cert, key string
	var caNode *yaml.Node
	seen := p.Mapping(n, map[string]field{
		"ca":   func(n *yaml.Node) { ca, caNode = p.filePath(n), n },
		"cert": func(n *yaml.Node) { cert = p.filePath(n) },
		"key":  func(n *yaml.Node) { key = p.filePath(n) },
	})
	if seen["cert"] != seen["key"] {
		p.Fault(n, "cert and key belong together: the client's certificate and its key")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			p.Fault(caNode, "ca: %v", err)
			return
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			p.Fault(caNode, "ca: %s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", ca)
		}
	}
	if cert != "" && key != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			return &pair, err
		}
		if _, err := load(); err != nil {
			p.Fault(n, "cert %s and key %s: %v", cert, key, err)
		}
		// The files are read at each handshake, because certificates are renewed while a process runs.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	b.tls = c
}

// filePath reads the absolute path of a file.
func (p *parser) filePath(n *yaml.Node) string {
	s, ok := p.Constant(n)
	if !ok {
		return ""
	}
	if !filepath.IsAbs(s) {
		p.Fault(n, "%q is not an absolute path", s)
		return ""
	}
	return s
}
