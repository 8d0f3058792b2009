package httpagent_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A service that refuses a do after its undo must know which do that is. The task ID is not enough, since a later task may reuse it.
func TestAnUndoNamesTheKeyOfItsDo(t *testing.T) {
	t.Parallel()
	var got http.Header
	h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.WriteHeader(http.StatusNoContent)
	}))
	w := h.Work("package", events.Undo, map[string]any{"id": "7"})
	h.Send(w)
	_, ok := h.Await(w)
	require.True(t, ok)
	require.Equal(t, w.Key(uuid.Nil, events.Do), got.Get("Sagalog-Undoes"))
	require.NotEqual(t, got.Get("Idempotency-Key"), got.Get("Sagalog-Undoes"))
	h.Do("package", map[string]any{"id": "7"})
	require.NotContains(t, got, "Sagalog-Undoes")
}

// The status of an undo is the whole answer: what it undid is undone, whatever the body says or is.
func TestAnUndoIsOverWhateverItsAnswerIs(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"not JSON": "<html>", "broken": `{"a":`, "too large": strings.Repeat("x", 1<<20), "none": ""} {
		h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body))
		}))
		w := h.Work("package", events.Undo, map[string]any{"id": "7"})
		h.Send(w)
		r, ok := h.Await(w)
		require.True(t, ok, name)
		require.Equal(t, events.ResultCompleted, r.Result, "%s: %v", name, r.Error)
		require.Empty(t, r.Output, name)
	}
}

// The first undo of a completed do fails if it finds nothing. An operator who retries the task should know that the second one does not.
func TestAnUndoThatFindsNothingSaysWhatARetryDoes(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusNotFound, http.StatusGone} {
		h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no such package", code)
		}))
		w := h.Work("package", events.Undo, map[string]any{"id": "7"})
		w.Output = []byte(`{"id": "7"}`)
		h.Send(w)
		r, ok := h.Await(w)
		require.True(t, ok)
		require.Equal(t, events.ClassPermanent, r.Error.Class)
		require.Contains(t, r.Error.Message, ": no such package. The step had completed")
		require.Contains(t, r.Error.Message, "a retry takes this answer as proof that it is")

		w.Attempt++
		h.Send(w)
		r, ok = h.Await(w)
		require.True(t, ok)
		require.Equal(t, events.ResultCompleted, r.Result, "%v", r.Error)
	}
}

// The message says which of the values in the path to look at.
func TestAnEmptyValueOfAPathIsNamed(t *testing.T) {
	t.Parallel()
	h := bind(t, "agent: a\nhttp: {base: \"${ env.BASE }\"}\ndo: {method: PUT, path: \"/${ input.kind }/${ input.id }\"}\n"+
		"undo: {method: DELETE, path: \"/${ input.kind }/${ output?.id }\"}\n", "http://127.0.0.1:1")
	for id, value := range map[string]any{"empty": "", "null": nil} {
		require.Equal(t, "a value in the path is empty: ${ input.id }", h.Do("a", map[string]any{"kind": "k", "id": value}).Error.Message, id)
	}
	w := h.Work("a", events.Undo, map[string]any{"kind": "k"})
	h.Send(w)
	r, ok := h.Await(w)
	require.True(t, ok)
	require.Equal(t, "a value in the path is empty: ${ output?.id }", r.Error.Message)
}
