package bench

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/internal/pause"
)

// overview is what the overview of the page reads, in the order in which it begins. A test of the page compares it with what a browser asks for.
//
//go:embed overview.json
var overview []byte

// read is one thing that a page reads again and again: when the stream says that something changed, but at most every Every seconds.
type read struct {
	Path  string `json:"path"`
	Every int    `json:"every"`
	// Quiet says that no event is about it.
	Quiet bool `json:"quiet"`
}

const (
	// idleRead is how often a page reads what no event was about.
	idleRead = 15 * time.Second
	// streamPath is the stream without filters: everything that happens.
	streamPath = "/v1/stream"
	// browserConns is the number of connections that a browser opens to a server.
	browserConns = 6
	// pagesWithin is the time within which the pages open, so that they do not all read in the same moment.
	pagesWithin = time.Second
	// brokenStream is how long a page waits before it opens a stream again.
	brokenStream = 500 * time.Millisecond
)

// PageCounts is what open pages read.
type PageCounts struct {
	Reads  int64 `json:"reads"`
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`
	Failed int64 `json:"failed"`
	// First is the first failure.
	First string `json:"first,omitempty"`
	// Seconds is how long the pages were open.
	Seconds float64 `json:"seconds"`
}

// ReadersConfig configures a process that opens pages as browsers do. A benchmark starts it.
type ReadersConfig struct {
	// URL is the API's.
	URL   string
	Pages int
	// Counts is the file for the counts.
	Counts string
	// Orders opens the pages by a line "open" and closes them by a line "close". The process ends when it ends.
	Orders io.Reader
}

// readers are the open pages of a process.
type readers struct {
	url   string
	reads []read

	requests, events, bytes, failed atomic.Int64
	first                           atomic.Pointer[string]
}

// Readers opens and closes pages until its orders end.
func Readers(ctx context.Context, c ReadersConfig) error {
	r := &readers{url: c.URL}
	if err := json.Unmarshal(overview, &r.reads); err != nil {
		return fmt.Errorf("read what a page reads: %w", err)
	}
	var counts PageCounts
	var opened time.Time
	shut := func() {}
	for lines := bufio.NewScanner(c.Orders); lines.Scan(); {
		switch lines.Text() {
		case "open":
			shut, opened = r.open(ctx, c.Pages), time.Now()
		case "close":
			shut()
			shut = func() {}
			counts.Seconds += time.Since(opened).Seconds()
		}
	}
	shut()
	counts.Reads, counts.Events, counts.Bytes, counts.Failed = r.requests.Load(), r.events.Load(), r.bytes.Load(), r.failed.Load()
	if first := r.first.Load(); first != nil {
		counts.First = *first
	}
	b, err := json.Marshal(counts)
	if err != nil {
		return err
	}
	return os.WriteFile(c.Counts, b, 0o600)
}

// open opens pages. The returned function closes them.
func (r *readers) open(ctx context.Context, pages int) (shut func()) {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range pages {
		all.Go(func() {
			if pause.For(ctx, pagesWithin*time.Duration(i)/time.Duration(pages)) {
				r.page(ctx)
			}
		})
	}
	return func() {
		stop()
		all.Wait()
	}
}

// page is one open page: a stream, and what is read because of it.
func (r *readers) page(ctx context.Context) {
	transport := &http.Transport{MaxConnsPerHost: browserConns}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	heard := make([]chan struct{}, len(r.reads))
	var all sync.WaitGroup
	for i, read := range r.reads {
		heard[i] = make(chan struct{}, 1)
		all.Go(func() { r.again(ctx, client, read, heard[i]) })
	}
	for ctx.Err() == nil {
		r.failure(ctx, r.stream(ctx, client, func() {
			for _, c := range heard {
				select {
				case c <- struct{}{}:
				default:
				}
			}
		}))
		pause.For(ctx, brokenStream)
	}
	all.Wait()
}

// again reads one thing until ctx ends.
func (r *readers) again(ctx context.Context, client *http.Client, what read, heard chan struct{}) {
	least := time.Duration(what.Every) * time.Second
	if what.Quiet {
		heard = nil
	}
	for {
		begun := time.Now()
		select {
		case <-heard:
		default:
		}
		r.failure(ctx, r.get(ctx, client, what.Path, func(body io.Reader) error {
			n, err := io.Copy(io.Discard, body)
			r.bytes.Add(n)
			return err
		}))
		idle := time.NewTimer(max(idleRead, least))
		select {
		case <-ctx.Done():
		case <-heard:
			pause.For(ctx, time.Until(begun.Add(least)))
		case <-idle.C:
		}
		idle.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// stream follows the stream, and calls changed for each event.
func (r *readers) stream(ctx context.Context, client *http.Client, changed func()) error {
	return r.get(ctx, client, streamPath, func(body io.Reader) error {
		lines := bufio.NewReaderSize(body, 64<<10)
		for {
			line, err := lines.ReadSlice('\n')
			r.bytes.Add(int64(len(line)))
			switch {
			case err == bufio.ErrBufferFull:
			case err != nil:
				return err
			case bytes.HasPrefix(line, []byte("event: ")):
				r.events.Add(1)
				changed()
			}
		}
	})
}

func (r *readers) get(ctx context.Context, client *http.Client, path string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, http.NoBody)
	if err != nil {
		return err
	}
	if path == streamPath {
		req.Header.Set("Accept", "text/event-stream") // a client that does not ask for one is refused
	}
	r.requests.Add(1)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return read(resp.Body)
}

// failure counts an error, unless it is the end of ctx.
func (r *readers) failure(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	r.failed.Add(1)
	text := err.Error()
	r.first.CompareAndSwap(nil, &text)
}
