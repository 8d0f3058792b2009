package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/acls"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/spf13/pflag"
)

// connection holds the flags that say how to reach a Kafka cluster. All commands that need one share them.
type connection struct {
	brokers []string
	// role is what the process does there; empty: it reads.
	role acls.Role

	tls                                     bool
	tlsCA, tlsCert, tlsKey, tlsServerName   string
	mechanism, user, password, passwordFile string
}

func (c *connection) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&c.brokers, "brokers", nil, "HOST:PORT of some brokers of the Kafka cluster, separated by commas; the others are found through them")
	f.BoolVar(&c.tls, "tls", false, "use TLS to the brokers; each --tls-... flag implies it")
	f.StringVar(&c.tlsCA, "tls-ca", "", "file of the CA certificates (PEM) that sign the brokers' certificates (default: the system's)")
	f.StringVar(&c.tlsCert, "tls-cert", "", "file of the client's certificate (PEM), if the brokers ask for one")
	f.StringVar(&c.tlsKey, "tls-key", "", "file of the key of --tls-cert (PEM)")
	f.StringVar(&c.tlsServerName, "tls-server-name", "", "name that the brokers' certificates must bear, if it is not the host of --brokers")
	f.StringVar(&c.mechanism, "sasl", "", "authenticate with this mechanism: "+strings.Join(kafka.Mechanisms(), ", "))
	f.StringVar(&c.user, "sasl-user", "", "name of the Kafka user")
	f.StringVar(&c.password, "sasl-password", "", "its password; everyone on the machine can see flags in ps, so use the variable or --sasl-password-file")
	f.StringVar(&c.passwordFile, "sasl-password-file", "", "file that holds the password and nothing else")
}

// config returns how to reach the cluster. A wrong call has exit code 2; a file that cannot be read has 1.
func (c *connection) config(log *slog.Logger) (kafka.ClusterConfig, error) {
	cfg := kafka.ClusterConfig{Logger: log}
	if len(c.brokers) == 0 {
		return cfg, usage("--brokers is missing: HOST:PORT of some brokers of the Kafka cluster, such as --brokers 127.0.0.1:9092")
	}
	for _, b := range c.brokers {
		b = strings.TrimSpace(b)
		host, port, err := net.SplitHostPort(b)
		if err != nil || host == "" || port == "" {
			return cfg, usage("--brokers: %q is not HOST:PORT, such as 127.0.0.1:9092", b)
		}
		cfg.Brokers = append(cfg.Brokers, b)
	}
	var err error
	if cfg.TLS, err = c.tlsConfig(); err != nil {
		return cfg, err
	}
	cfg.SASL, err = c.sasl()
	return cfg, err
}

// reach connects to the cluster. It returns an error if no broker is usable.
func (c *connection) reach(ctx context.Context) (*kafka.Cluster, error) {
	cfg, err := c.config(newLogger(true))
	if err != nil {
		return nil, err
	}
	cfg.Role = string(cmp.Or(c.role, acls.Reader))
	cluster, err := kafka.Connect(cfg)
	if err != nil {
		return nil, err
	}
	if err := doctor.Reach(ctx, cluster); err != nil {
		cluster.Close()
		return nil, err
	}
	return cluster, nil
}

func (c *connection) tlsConfig() (*tls.Config, error) {
	if !c.tls && c.tlsCA == "" && c.tlsCert == "" && c.tlsKey == "" && c.tlsServerName == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.tlsServerName}
	if c.tlsCA != "" {
		pem, err := os.ReadFile(c.tlsCA)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca: %s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", c.tlsCA)
		}
	}
	if (c.tlsCert == "") != (c.tlsKey == "") {
		return nil, usage("--tls-cert and --tls-key belong together: give the client's certificate and its key")
	}
	if c.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(c.tlsCert, c.tlsKey)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", c.tlsCert, c.tlsKey, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

func (c *connection) sasl() (*kafka.SASL, error) {
	if c.mechanism == "" {
		if c.user != "" || c.password != "" || c.passwordFile != "" {
			return nil, usage("--sasl is missing: name the mechanism to authenticate with, one of %s", strings.Join(kafka.Mechanisms(), ", "))
		}
		return nil, nil
	}
	s := &kafka.SASL{Mechanism: strings.ToUpper(c.mechanism), User: c.user, Password: c.password}
	switch {
	case !slices.Contains(kafka.Mechanisms(), s.Mechanism):
		return nil, usage("--sasl %q is not known; %s", c.mechanism, events.Suggest(s.Mechanism, kafka.Mechanisms()))
	case c.user == "":
		return nil, usage("--sasl-user is missing: --sasl %s needs the name of a user", s.Mechanism)
	case c.password != "" && c.passwordFile != "":
		return nil, usage("--sasl-password and --sasl-password-file are both given: leave one out")
	case c.passwordFile != "":
		b, err := os.ReadFile(c.passwordFile)
		if err != nil {
			return nil, fmt.Errorf("--sasl-password-file: %w", err)
		}
		// Editors and `echo` end a file with a newline, which is not part of the password.
		if s.Password = strings.TrimRight(string(b), "\r\n"); s.Password == "" {
			return nil, fmt.Errorf("--sasl-password-file: %s is empty", c.passwordFile)
		}
	case c.password == "":
		return nil, usage("the password of %s is missing: set SAGALOG_SASL_PASSWORD or --sasl-password-file", c.user)
	}
	return s, nil
}

const (
	plainPasswordText   = "the password travels in clear text: SASL PLAIN without TLS"
	plainPasswordRemedy = "use TLS (--tls), or authenticate with --sasl SCRAM-SHA-512"
)

// plainPassword says whether the password crosses the network unencrypted.
func plainPassword(cfg kafka.ClusterConfig) bool {
	if cfg.SASL == nil || cfg.SASL.Mechanism != "PLAIN" || cfg.TLS != nil {
		return false
	}
	return slices.ContainsFunc(cfg.Brokers, func(b string) bool { return loopback("--brokers", b) != nil })
}
