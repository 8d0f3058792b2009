package secretfile_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/internal/secretfile"
	"github.com/stretchr/testify/require"
)

// A file that cannot be read for a while counts again as soon as it can be, although it has not changed, and the log says each thing once.
func TestASecretFileIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "secret")
		require.NoError(t, os.WriteFile(path, []byte("one"), 0o600))
		var log bytes.Buffer
		fails := error(nil)
		secret, err := secretfile.Open(path, func(text []byte) (string, error) { return string(text), fails }, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		looks := func(want string) {
			for range 5 {
				time.Sleep(time.Second)
				require.Equal(t, want, secret.Now())
			}
		}
		looks("one")
		require.Empty(t, log.String())
		fails = errors.New("the disk is away")
		require.NoError(t, os.WriteFile(path, []byte("two, which is longer"), 0o600))
		looks("one")
		require.Equal(t, 1, strings.Count(log.String(), path+": the disk is away"), "%s", &log)
		fails = nil
		looks("two, which is longer")
		require.Equal(t, 1, strings.Count(log.String(), "was read again"), "%s", &log)
		_, err = secretfile.Open(filepath.Dir(path), func([]byte) (int, error) { return 0, nil }, slog.Default())
		require.ErrorContains(t, err, "not a regular file")
	})
}
