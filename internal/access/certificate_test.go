package access_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/access/accesstest"
	"github.com/stretchr/testify/require"
)

func TestAChangedCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cert, key := accesstest.Certificate(t, dir, 1)
		var log bytes.Buffer
		c, err := access.OpenCertificate(cert, key, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		require.Equal(t, uint16(tls.VersionTLS12), c.Config().MinVersion)
		serial := func() int64 {
			pair, err := c.Config().GetCertificate(nil)
			require.NoError(t, err)
			leaf, err := x509.ParseCertificate(pair.Certificate[0])
			require.NoError(t, err)
			return leaf.SerialNumber.Int64()
		}
		require.EqualValues(t, 1, serial())
		accesstest.Certificate(t, dir, 2)
		time.Sleep(time.Second)
		require.EqualValues(t, 2, serial())
		require.NoError(t, os.WriteFile(cert, []byte("half"), 0o600)) // while it is being written
		time.Sleep(time.Second)
		require.EqualValues(t, 2, serial())
		require.Contains(t, log.String(), "cannot be used")
		accesstest.Certificate(t, dir, 3)
		time.Sleep(time.Second)
		require.EqualValues(t, 3, serial())
	})
}

// While the CA of the nodes is replaced, its file holds both.
func TestChangedAuthoritiesAreReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		older, newer := t.TempDir(), t.TempDir()
		first, _ := accesstest.Certificate(t, older, 1)
		second, _ := accesstest.Certificate(t, newer, 2)
		ca := filepath.Join(t.TempDir(), "ca.pem")
		var log bytes.Buffer
		write := func(files ...string) {
			var all []byte
			for _, name := range files {
				text, err := os.ReadFile(name)
				require.NoError(t, err)
				all = append(all, text...)
			}
			require.NoError(t, os.WriteFile(ca, all, 0o600))
			time.Sleep(time.Second)
		}
		write(first)
		config, err := access.OpenAuthorities(ca, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		trusts := func(name string) bool {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			block, _ := pem.Decode(text)
			leaf, err := x509.ParseCertificate(block.Bytes)
			require.NoError(t, err)
			_, err = leaf.Verify(x509.VerifyOptions{Roots: config().RootCAs, DNSName: "127.0.0.1", CurrentTime: leaf.NotBefore.Add(time.Minute)})
			return err == nil
		}
		require.True(t, trusts(first))
		require.False(t, trusts(second))
		write(first, second)
		require.True(t, trusts(first) && trusts(second))
		write()
		require.True(t, trusts(first) && trusts(second), "what it held before")
		require.Contains(t, log.String(), "holds no certificate")
		write(second)
		require.False(t, trusts(first))
		require.True(t, trusts(second))
		_, err = access.OpenAuthorities(ca+"x", slog.New(slog.DiscardHandler))
		require.Error(t, err)
	})
}

func TestAKeyThatOthersCanReadIsRefused(t *testing.T) {
	t.Parallel()
	cert, key := accesstest.Certificate(t, t.TempDir(), 1)
	require.NoError(t, os.Chmod(key, 0o644))
	_, err := access.OpenCertificate(cert, key, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "chmod 600 "+key)
}
