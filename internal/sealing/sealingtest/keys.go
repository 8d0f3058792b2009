package sealingtest

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/stretchr/testify/require"
)

// Keys returns the keys of a namespace named ns, with a new key file, on a broker of the test. They are closed when the test ends.
func Keys(t *testing.T) *sealing.Keys {
	t.Helper()
	c := kafkatest.Start(t)
	kafkatest.Create(t, c, kafka.Topics{Namespace: "ns"}.KeysSpec())
	path := filepath.Join(t.TempDir(), "seal.key")
	require.NoError(t, os.WriteFile(path, []byte(sealing.NewKey()), 0o600))
	file, err := sealing.OpenKeyFile(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	keys, err := sealing.Open(t.Context(), c, "ns", file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, keys.Bind(t.Context(), "6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a11"))
	t.Cleanup(keys.Topic().Close)
	return keys
}
