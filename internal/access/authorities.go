package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
)

// OpenAuthorities reads a file of CA certificates (PEM), and reads it again when it has changed. The function that it returns gives the TLS
// configuration for a connection to another node, at most a second out of date. Without a path the CAs are those of the system.
func OpenAuthorities(path string, log *slog.Logger) (func() *tls.Config, error) {
	if path == "" {
		return func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }, nil
	}
	w := &watched[*x509.CertPool]{paths: []string{path}, log: log, read: func() (*x509.CertPool, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", path)
		}
		return pool, nil
	}}
	return func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: w.now()} }, w.open()
}
