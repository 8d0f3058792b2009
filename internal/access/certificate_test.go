package access_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
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

func TestAKeyThatOthersCanReadIsRefused(t *testing.T) {
	t.Parallel()
	cert, key := accesstest.Certificate(t, t.TempDir(), 1)
	require.NoError(t, os.Chmod(key, 0o644))
	_, err := access.OpenCertificate(cert, key, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "chmod 600 "+key)
}
