package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A page reads everything once. What an event is about is read again after it, and the rest is not.
func TestAPageReadsAgainWhatAnEventIsAbout(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	again := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == streamPath {
			require.Equal(t, "text/event-stream", r.Header.Get("Accept"))
			fmt.Fprint(w, "id: 1\nevent: open\ndata: {}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, "{}")
		mu.Lock()
		defer mu.Unlock()
		if asked[r.URL.RequestURI()]++; asked["/v1/counts?by=state"] == 2 && r.URL.RequestURI() == "/v1/counts?by=state" {
			close(again)
		}
	}))
	defer s.Close()
	orders, give := io.Pipe()
	file, ended := filepath.Join(t.TempDir(), "counts"), make(chan error, 1)
	go func() {
		ended <- Readers(t.Context(), ReadersConfig{URL: s.URL, Pages: 1, Counts: file, Orders: orders})
	}()
	_, _ = io.WriteString(give, "open\n")
	<-again
	_, _ = io.WriteString(give, "close\n")
	require.NoError(t, give.Close())
	require.NoError(t, <-ended)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var n PageCounts
	require.NoError(t, json.Unmarshal(text, &n))
	require.Zero(t, n.Failed, n.First)
	require.EqualValues(t, 1, n.Events)
	require.Positive(t, n.Seconds)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 1, asked["/v1/whoami"], "no event is about it")
	require.GreaterOrEqual(t, n.Reads, int64(len(asked)+2), "all were read, the stream was opened, and the counts were read twice")
}

func TestAReadThatFailsIsCounted(t *testing.T) {
	t.Parallel()
	refused := make(chan struct{}, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusTeapot)
		refused <- struct{}{}
	}))
	defer s.Close()
	orders, give := io.Pipe()
	file, ended := filepath.Join(t.TempDir(), "counts"), make(chan error, 1)
	go func() {
		ended <- Readers(t.Context(), ReadersConfig{URL: s.URL, Pages: 1, Counts: file, Orders: orders})
	}()
	_, _ = io.WriteString(give, "open\n")
	for range 14 { // all things once, and the stream again and again: the first answers have been counted by then
		<-refused
	}
	require.NoError(t, give.Close())
	require.NoError(t, <-ended)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "418")
	require.NotContains(t, string(text), `"failed":0`)
}
