package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/stretchr/testify/require"
)

// newFront is a shop without relay and follower, on a new database.
func newFront(t *testing.T, api string) *front {
	t.Helper()
	s, err := openStore(t.Context(), filepath.Join(t.TempDir(), "a b%.db"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	return &front{store: s, tasks: tasks{api: api}, log: slog.New(slog.DiscardHandler)}
}

func (f *front) ask(method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	f.routes().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func TestAnOrderTakesEffectOnce(t *testing.T) {
	t.Parallel()
	f := newFront(t, "http://127.0.0.1:1")
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/orders/o-1", `{"customer":"anna","cents":5}`, http.StatusCreated},
		{"/orders/o-1", `{"customer":"anna","cents":5}`, http.StatusOK},
		{"/orders/o-1", `{"customer":"anna","cents":6}`, http.StatusConflict},
		{"/orders/o-1", `{"customer":"ben","cents":5}`, http.StatusConflict},
		{"/orders/o-2", `{"customer":"anna","cents":0}`, http.StatusUnprocessableEntity},
		{"/orders/o-2", `{"customer":"","cents":5}`, http.StatusUnprocessableEntity},
		{"/orders/" + strings.Repeat("o", idMax+1), `{"customer":"anna","cents":5}`, http.StatusUnprocessableEntity},
		{"/orders/o-2", `{"customer":"anna","cents":5,"coupon":1}`, http.StatusBadRequest},
		{"/orders/o-2", `no`, http.StatusBadRequest},
	} {
		status, text := f.ask(http.MethodPut, c.path, c.body)
		require.Equal(t, c.status, status, "%s %s: %s", c.path, c.body, text)
	}
	unsent, err := f.store.unsent(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, unsent, 1)
	require.Equal(t, "o-1", unsent[0].ID)
	status, _ := f.ask(http.MethodGet, "/orders/o-2", "")
	require.Equal(t, http.StatusNotFound, status)
}

// An order is shown without its record while nobody can say what became of its task.
func TestAnOrderIsShownWithoutAnEngine(t *testing.T) {
	t.Parallel()
	f := newFront(t, "http://127.0.0.1:1")
	status, _ := f.ask(http.MethodPut, "/orders/o-1", `{"customer":"a\nb\tc","cents":5}`)
	require.Equal(t, http.StatusCreated, status)
	status, text := f.ask(http.MethodGet, "/orders/o-1", "")
	require.Equal(t, http.StatusOK, status)
	var s shown
	require.NoError(t, json.Unmarshal([]byte(text), &s))
	require.Nil(t, s.Task)
	require.Contains(t, s.Note, "127.0.0.1:1")
	_, table := f.ask(http.MethodGet, "/orders", "")
	require.Equal(t, 2, strings.Count(table, "\n"), table)
	require.Contains(t, table, "a b c")
}

func TestARefusedOrderLeavesTheOutbox(t *testing.T) {
	t.Parallel()
	e := apitest.New() // its workflow order wants an item, which the shop does not send
	url := e.Serve(t)
	f := newFront(t, url)
	producer, err := client.HTTP(url)
	require.NoError(t, err)
	defer producer.Close()
	status, _ := f.ask(http.MethodPut, "/orders/o-1", `{"customer":"anna","cents":5}`)
	require.Equal(t, http.StatusCreated, status)
	r := &relay{store: f.store, producer: producer, log: slog.New(slog.DiscardHandler)}
	require.NoError(t, r.drain(t.Context()))
	unsent, err := f.store.unsent(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, unsent)
	o, err := f.store.order(t.Context(), "o-1")
	require.NoError(t, err)
	require.Equal(t, stateRejected, o.State)
	require.Contains(t, o.Reason, "/input/item")
}

func TestAnOrderStaysInTheOutboxWithoutAnEngine(t *testing.T) {
	t.Parallel()
	f := newFront(t, "http://127.0.0.1:1")
	producer, err := client.HTTPWith(client.HTTPConfig{URL: "http://127.0.0.1:1", RetryFor: -1})
	require.NoError(t, err)
	defer producer.Close()
	f.ask(http.MethodPut, "/orders/o-1", `{"customer":"anna","cents":5}`)
	r := &relay{store: f.store, producer: producer, log: slog.New(slog.DiscardHandler)}
	require.ErrorIs(t, r.drain(t.Context()), client.ErrUnavailable)
	unsent, err := f.store.unsent(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, unsent, 1)
}

func TestWrongFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"--die-at lunch":          `no step "lunch"`,
		"--die-at submitted:0":    `"0" is not a number from 1`,
		"--http 0.0.0.0:8700":     "no authentication",
		"--http 8700":             "not an address of loopback",
		"--api 127.0.0.1:8642":    "is not a URL",
		"--db x.db another.thing": "",
	} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(t.Context(), strings.Fields(args), &out, &errs), args)
		require.Contains(t, errs.String(), says)
	}
}
