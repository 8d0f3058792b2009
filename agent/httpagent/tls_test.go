package httpagent_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent/httpagent"
	"github.com/sagalog/sagalog/events"
)

// clientCertificate writes a self-signed client certificate with its key.
func clientCertificate(t *testing.T, certFile, keyFile, name string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	c, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return c
}

// serveTLS serves with httptest's certificate and returns the URL and a file with that certificate.
func serveTLS(t *testing.T, change func(*tls.Config)) (url, ca string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) > 0 {
			w.Header().Set("X-Client", r.TLS.PeerCertificates[0].Subject.CommonName)
		}
		w.Header().Set("Connection", "close") // the next call makes a new handshake
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	change(s.TLS)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(ca, block, 0o600))
	return s.URL, ca
}

const calling = "\ndo: {method: PUT, path: /x, output: \"${ headers['x-client'] }\"}\n"

func TestAPrivateAuthorityIsTrustedOnlyIfItIsNamed(t *testing.T) {
	t.Parallel()
	url, ca := serveTLS(t, func(*tls.Config) {})
	r := bind(t, "agent: a\nhttp: {base: \"${ env.BASE }\"}"+calling, url).Do("a", nil)
	require.Equal(t, events.ClassRetryable, r.Error.Class)
	require.Contains(t, r.Error.Message, "certificate")
	r = bind(t, "agent: a\nhttp: {base: \"${ env.BASE }\", tls: {ca: "+ca+"}}"+calling, url).Do("a", nil)
	require.Equal(t, events.ResultCompleted, r.Result, "%+v", r.Error)
}

func TestAClientCertificateIsSentAndReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool := x509.NewCertPool()
	pool.AddCert(clientCertificate(t, cert, key, "agent-1"))
	next, nextKey := filepath.Join(dir, "next.pem"), filepath.Join(dir, "nextkey.pem")
	pool.AddCert(clientCertificate(t, next, nextKey, "agent-2"))
	url, ca := serveTLS(t, func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool })
	with := func(more string) string {
		return "agent: a\nhttp: {base: \"${ env.BASE }\", tls: {ca: " + ca + more + "}}" + calling
	}
	require.NotNil(t, bind(t, with(""), url).Do("a", nil).Error, "without a certificate")
	h := bind(t, with(", cert: "+cert+", key: "+key), url)
	r := h.Do("a", nil)
	require.Equal(t, `"agent-1"`, string(r.Output), "%+v", r.Error)
	require.NoError(t, os.Rename(nextKey, key))
	require.NoError(t, os.Rename(next, cert))
	r = h.Do("a", nil)
	require.Equal(t, `"agent-2"`, string(r.Output), "%+v", r.Error)
}

func TestFaultsOfTLSHavePlaces(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for text, want := range map[string]string{
		"{ca: ca.pem}":                              `f.yaml:2:34: "ca.pem" is not an absolute path`,
		"{ca: /does/not/exist}":                     "f.yaml:2:34: ca: open /does/not/exist",
		"{ca: " + empty + "}":                       "f.yaml:2:34: ca: " + empty + " holds no certificate in PEM form",
		"{cert: " + empty + "}":                     "f.yaml:2:29: cert and key belong together",
		"{cert: " + empty + ", key: " + empty + "}": "f.yaml:2:29: cert " + empty,
		"{insecure: true}":                          `f.yaml:2:30: unknown key "insecure"`,
	} {
		_, err := httpagent.Parse("f.yaml", []byte("agent: a\nhttp: {base: http://x, tls: "+text+"}\ndo: {method: GET, path: /}\n"),
			func(string) (string, bool) { return "", false })
		require.ErrorContains(t, err, want, strings.TrimSpace(text))
	}
}
