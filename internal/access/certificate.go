package access

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/sagalog/sagalog/internal/secretfile"
)

// Certificate is the certificate of the API. It is read again when its files have changed, for the next connection.
type Certificate struct {
	pair *secretfile.File[*tls.Certificate]
}

// OpenCertificate reads the files of a certificate and of its key (PEM).
func OpenCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	pair, err := secretfile.Watch(func() (*tls.Certificate, error) {
		if _, _, err := secretfile.ReadPrivate(key); err != nil {
			return nil, err
		}
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", cert, key, err)
		}
		return &pair, nil
	}, log, cert, key)
	return &Certificate{pair}, err
}

// Config returns the TLS of the API.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Now(), nil },
	}
}
