package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"

	"github.com/sagalog/sagalog/internal/secretfile"
)

// OpenAuthorities reads a file of CA certificates (PEM), and reads it again when it has changed. The function that it returns gives the TLS
// configuration for a connection to another node, at most a second out of date. Without a path the CAs are those of the system.
func OpenAuthorities(path string, log *slog.Logger) (func() *tls.Config, error) {
	if path == "" {
		return func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }, nil
	}
	pool, err := secretfile.Watch(func() (*x509.CertPool, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", path)
		}
		return pool, nil
	}, log, path)
	return func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool.Now()} }, err
}
