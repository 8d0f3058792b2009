package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Guarded is a kfake broker with authentication, over TCP. It has the users of Real and behaves like it as far as kfake can: after a wrong
// password it closes the connection.
type Guarded struct {
	t       testing.TB
	Cluster *kfake.Cluster
	// CAFile is the certificate of the authority that signed the broker's certificate. CertFile and KeyFile belong to a client.
	CAFile, CertFile, KeyFile string
	tls                       bool
	sasl                      bool
}

// The passwords of the users of a Guarded.
const (
	AdminPassword   = "admin-password"
	LimitedPassword = "limited-password"
)

// GuardedOptions say what a Guarded requires.
type GuardedOptions struct {
	SASL, TLS bool
	// ClientCertificate requires that the client has a certificate too.
	ClientCertificate bool
	// Allowed is what LimitedUser may do; nil with SASL means that there are no access lists.
	Allowed []Allowed
	// Options holds additional options of kfake.
	Options []kfake.Opt
}

// Allowed is one entry of the access lists, for all names that begin with Prefix.
type Allowed struct {
	Group  bool
	Prefix string
	To     []kmsg.ACLOperation
}

// Enough holds the permissions of a process with all roles, also those that it can do without.
func Enough(namespace string) []Allowed {
	ops := []kmsg.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate, kmsg.ACLOperationDelete, kmsg.ACLOperationDescribeConfigs}
	return []Allowed{
		{Prefix: namespace + ".", To: ops}, {Prefix: "dlq." + namespace + ".", To: ops},
		{Group: true, Prefix: namespace + ".", To: []kmsg.ACLOperation{kmsg.ACLOperationRead}},
	}
}

// The mechanisms that a Guarded supports. Every user can use each of them.
var guardedMechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

// StartGuarded starts a Guarded, which ends with the test.
func StartGuarded(t testing.TB, o GuardedOptions) *Guarded {
	t.Helper()
	g := &Guarded{t: t, tls: o.TLS, sasl: o.SASL}
	opts := append([]kfake.Opt{kfake.NumBrokers(1)}, o.Options...)
	if o.TLS {
		opts = append(opts, kfake.TLS(g.certificates(o.ClientCertificate)))
	}
	if o.SASL {
		opts = append(opts, kfake.EnableSASL())
		for _, m := range guardedMechanisms {
			opts = append(opts, kfake.Superuser(m, AdminUser, AdminPassword), kfake.User(m, LimitedUser, LimitedPassword, acls(o.Allowed)...))
		}
	}
	if o.Allowed != nil {
		opts = append(opts, kfake.EnableACLs())
	}
	var err error
	g.Cluster, err = kfake.NewCluster(opts...)
	require.NoError(t, err)
	t.Cleanup(g.Cluster.Close)
	return g
}

func acls(allowed []Allowed) (out []kfake.ACL) {
	for _, a := range allowed {
		kind := kmsg.ACLResourceTypeTopic
		if a.Group {
			kind = kmsg.ACLResourceTypeGroup
		}
		for _, op := range a.To {
			out = append(out, kfake.ACL{Resource: kind, Name: a.Prefix, Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: op, Allow: true})
		}
	}
	return out
}

// Bootstrap is host:port of the broker.
func (g *Guarded) Bootstrap() string { return strings.Join(g.Cluster.ListenAddrs(), ",") }

// Config says how to reach the broker as a user, by a mechanism. Without SASL both are ignored.
func (g *Guarded) Config(user, mechanism string) kafka.ClusterConfig {
	g.t.Helper()
	cfg := kafka.ClusterConfig{Brokers: g.Cluster.ListenAddrs()}
	if g.sasl {
		cfg.SASL = &kafka.SASL{Mechanism: mechanism, User: user, Password: map[string]string{AdminUser: AdminPassword, LimitedUser: LimitedPassword}[user]}
	}
	if g.tls {
		cfg.TLS = trusting(g.t, g.CAFile)
	}
	return cfg
}

// trusting returns the configuration of a client that trusts the authority of a file.
func trusting(t testing.TB, caFile string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(caFile)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// certificates creates an authority, a certificate of 127.0.0.1 for the broker and one for a client. It writes the files that clients
// need.
func (g *Guarded) certificates(ofClients bool) *tls.Config {
	g.t.Helper()
	dir := g.t.TempDir()
	authority := newKey(g.t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "guarded test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	sign := func(c *x509.Certificate, key *ecdsa.PrivateKey) []byte {
		der, err := x509.CreateCertificate(rand.Reader, c, ca, key.Public(), authority)
		require.NoError(g.t, err)
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	g.CAFile = filepath.Join(dir, "ca.pem")
	caPEM := sign(ca, authority)
	require.NoError(g.t, os.WriteFile(g.CAFile, caPEM, 0o600))
	roots := x509.NewCertPool()
	require.True(g.t, roots.AppendCertsFromPEM(caPEM))

	leaf := func(serial int64, name string) (certPEM, keyPEM []byte) {
		key := newKey(g.t)
		c := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		require.NoError(g.t, err)
		return sign(c, key), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	cert, key := leaf(2, "client")
	g.CertFile, g.KeyFile = filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	require.NoError(g.t, os.WriteFile(g.CertFile, cert, 0o600))
	require.NoError(g.t, os.WriteFile(g.KeyFile, key, 0o600))

	pair, err := tls.X509KeyPair(leaf(3, "broker"))
	require.NoError(g.t, err)
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if ofClients {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, roots
	}
	return cfg
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}
