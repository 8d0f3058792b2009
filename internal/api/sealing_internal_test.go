package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sealing/sealingtest"
	"github.com/stretchr/testify/require"
)

// However an answer is cut into writes, its sealed values are opened, and the rest stays as it is.
func TestAnAnswerIsOpenedOnItsWay(t *testing.T) {
	keys := sealingtest.Keys(t)
	seal := func(subject, value string) string {
		sealed, err := keys.Seal(t.Context(), subject, []byte(value))
		require.NoError(t, err)
		return string(sealed)
	}
	shown, gone, absent := seal("c-1", `{"a":"b"}`), seal("c-2", `1`), seal("c-1", ``)
	_, err := keys.Topic().Erase(t.Context(), "c-2", events.At(time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)))
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

// What an operator sends to a task that this node cannot see would be sealed for the namespace, and so outlive the subject. A signal may come
// before its task; the owner seals it for the task.
func TestContentForATaskThatCannotBeSeenIsRefused(t *testing.T) {
	t.Parallel()
	s := &requests{keys: sealingtest.Keys(t)}
	for _, q := range []events.Request{
		{Kind: events.RequestRetry, With: json.RawMessage(`1`)}, {Kind: events.RequestComplete, Output: json.RawMessage(`1`)}, {Kind: events.RequestRerun, Input: json.RawMessage(`1`)},
		{Kind: events.RequestFail, Error: &events.Error{Detail: json.RawMessage(`1`)}},
	} {
		var p *Problem
		require.ErrorAs(t, s.seal(t.Context(), &q, nil), &p)
		require.Equal(t, http.StatusServiceUnavailable, p.Status)
	}
	require.NoError(t, s.seal(t.Context(), &events.Request{Kind: events.RequestRetry}, nil))
	signal := events.Request{Kind: events.RequestSignal, Payload: json.RawMessage(`1`)}
	require.NoError(t, s.seal(t.Context(), &signal, nil))
	require.True(t, events.IsSealed(signal.Payload))
}

func TestTheArgumentsOfAJobAreSealed(t *testing.T) {
	t.Parallel()
	keys := sealingtest.Keys(t)
	for _, args := range []string{
		`{"payload":{"a":"secret"},"signal":"go"}`, `{"output":"secret","step":"s"}`, `{"step":"s","with":"secret"}`, `{"from":"s","input":"secret"}`,
		`{"error":{"class":"permanent","detail":"secret","message":"no"},"step":"s"}`,
	} {
		sealed, err := sealArgs(t.Context(), keys, json.RawMessage(args))
		require.NoError(t, err)
		require.NotContains(t, string(sealed), "secret")
		opened, err := keys.Open(sealed)
		require.NoError(t, err)
		require.JSONEq(t, args, string(opened))
	}
	plain, err := sealArgs(t.Context(), keys, json.RawMessage(`{"step":"s"}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"step":"s"}`, string(plain))
}
