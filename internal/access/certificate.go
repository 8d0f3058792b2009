package access

import (
	"crypto/tls"
	"fmt"
	"log/slog"
)

// Certificate is the certificate of the API. It is read again when its files have changed, for the next connection.
type Certificate struct{ watched[*tls.Certificate] }

// OpenCertificate reads the files of a certificate and of its key (PEM).
func OpenCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{watched[*tls.Certificate]{paths: []string{cert, key}, log: log, read: func() (*tls.Certificate, error) {
		if _, _, err := readPrivate(key); err != nil {
			return nil, err
		}
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", cert, key, err)
		}
		return &pair, nil
	}}}
	return c, c.open()
}

// Config returns the TLS of the API.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now(), nil },
	}
}
