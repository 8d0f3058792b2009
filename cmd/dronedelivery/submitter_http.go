package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/dronedelivery"
)

// avoidFor is how long an endpoint that failed is avoided while there is another one: an endpoint that is down costs a batch now
// and then, and one that is back is soon found.
const avoidFor = time.Second

// httpSubmitter posts NDJSON batches to the public API of one node or of several, in turn.
type httpSubmitter struct {
	client    *http.Client
	transport *http.Transport
	// token is sent with each call; "": none is.
	token string

	// mu guards the fields below.
	mu        sync.Mutex
	endpoints []*endpoint
	next      int
}

// endpoint is the API of one node.
type endpoint struct {
	target string
	// failed is when it last failed.
	failed time.Time
}

func newHTTPSubmitter(f loadFlags) (*httpSubmitter, error) {
	w := &httpSubmitter{token: f.token, transport: &http.Transport{MaxIdleConnsPerHost: senders, Proxy: http.ProxyFromEnvironment}}
	w.client = &http.Client{Transport: w.transport, Timeout: f.timeout}
	for _, api := range f.apis {
		target, err := url.JoinPath(api, "/v1/tasks")
		if u, parseErr := url.Parse(api); err != nil || parseErr != nil || u.Host == "" {
			return nil, cli.Usage("load: --api %q is not a URL such as http://127.0.0.1:8642", api)
		}
		w.endpoints = append(w.endpoints, &endpoint{target: target})
	}
	return w, nil
}

func (w *httpSubmitter) close() { w.transport.CloseIdleConnections() }

// choose returns the next endpoint that has not failed lately, or the next one if all have.
func (w *httpSubmitter) choose(now time.Time) *endpoint {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.endpoints[w.next%len(w.endpoints)]
	for range w.endpoints {
		e := w.endpoints[w.next%len(w.endpoints)]
		w.next++
		if now.Sub(e.failed) > avoidFor {
			return e
		}
	}
	w.next++ // all have failed lately: the next call tries another one
	return first
}

func (w *httpSubmitter) avoid(e *endpoint, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.failed = now
}

// refusedBatch is an answer to a whole batch that repeating cannot change, such as 404.
type refusedBatch struct{ status, detail string }

func (r *refusedBatch) Error() string {
	return fmt.Sprintf("the engine answers %s: %s", r.status, r.detail)
}

// post sends one batch and reads as many answers as arrive. They count even if the response then breaks off.
func (w *httpSubmitter) post(ctx context.Context, tasks []dronedelivery.Task) (answers []answer, err error) {
	at := w.choose(time.Now())
	defer func() {
		if err != nil {
			w.avoid(at, time.Now())
		}
	}()
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	for _, t := range tasks {
		if err := e.Encode(t); err != nil {
			return nil, fmt.Errorf("encode submission: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.target, &body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Accept", "application/x-ndjson")
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	res, err := w.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		detail, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
		if transient(res.StatusCode) {
			return nil, fmt.Errorf("the engine answers %s", res.Status)
		}
		return nil, &refusedBatch{res.Status, strings.TrimSpace(string(detail))}
	}
	return readAnswers(res.Body)
}
