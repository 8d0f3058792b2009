package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/stretchr/testify/require"
)

// However an answer is cut into writes, its sealed values are opened, and the rest stays as it is.
func TestAnAnswerIsOpenedOnItsWay(t *testing.T) {
	c := kafkatest.Start(t)
	kafkatest.Create(t, c, kafka.Topics{Namespace: "ns"}.KeysSpec())
	path := filepath.Join(t.TempDir(), "seal.key")
	require.NoError(t, os.WriteFile(path, []byte(sealing.NewKey()), 0o600))
	file, err := sealing.OpenKeyFile(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	keys, err := sealing.Open(t.Context(), c, "ns", file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, keys.Bind(t.Context(), "6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a11"))
	seal := func(subject, value string) string {
		sealed, err := keys.Seal(t.Context(), subject, []byte(value))
		require.NoError(t, err)
		return string(sealed)
	}
	shown, gone, absent := seal("c-1", `{"a":"b"}`), seal("c-2", `1`), seal("c-1", ``)
	_, err = keys.Topic().Erase(t.Context(), "c-2", events.At(time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)))
	require.NoError(t, err)
	unknown := `{"$sealed":"0123..AAAA"}`
	text := `{"x":` + shown + `,"y":[` + gone + `,` + unknown + `],"z":` + absent + `,"$":"{\"$sealed\":\"`
	want := `{"x":{"a":"b"},"y":[{"$erased":"2026-11-28"},` + unknown + `],"z":null,"$":"{\"$sealed\":\"`
	for size := 1; size <= len(text); size += 1 + size/3 {
		answer := httptest.NewRecorder()
		opening(keys, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				_, err := w.Write([]byte(rest[:n]))
				require.NoError(t, err)
				rest = rest[n:]
			}
		})).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
		require.Equal(t, want, answer.Body.String(), size)
		require.Empty(t, answer.Header().Get("Content-Length"))
	}
}
