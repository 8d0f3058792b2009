package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
)

// movedBytes bounds what a node may say about partitions that it does not have.
const movedBytes = 64 << 10

// answerBytes bounds one answer that is merged in memory. The API cuts a page of a list far below it; only a single huge
// task can come near.
const answerBytes = 64 << 20

// Question is a GET that several nodes are asked, each about its own partitions.
type Question struct {
	Path  string
	Query url.Values
}

// RefusedError is a 4xx answer: the node found a fault in the question.
type RefusedError struct {
	Status int
	Body   []byte
}

func (e *RefusedError) Error() string { return fmt.Sprintf("answered %d", e.Status) }

// MovedError is ErrMoved with the node's explanation.
type MovedError struct{ Body []byte }

func (e *MovedError) Error() string { return ErrMoved.Error() }
func (e *MovedError) Unwrap() error { return ErrMoved }

// AskEach asks all nodes at once, each about its partitions, and returns when all have answered. It calls each with a
// JSON document or an error; one call at a time. each returns an error if it cannot read the document.
func (p *Proxy) AskEach(ctx context.Context, there map[Route][]int32, q Question, each func(partitions []int32, answer []byte, err error) error) {
	var mu sync.Mutex // held while the function each is called
	var wait sync.WaitGroup
	for to, partitions := range there {
		wait.Go(func() {
			answer, err := p.ask(ctx, to, q, partitions)
			mu.Lock()
			unread := each(partitions, answer, err)
			mu.Unlock()
			if unread != nil {
				err = p.failed(ctx, to, fmt.Errorf("read the answer: %w", unread))
			}
			outcome := outcomeOf(err)
			if _, ok := errors.AsType[*RefusedError](err); ok {
				outcome = outcomeAnswered
			}
			p.outcomes.WithLabelValues(outcome).Inc()
		})
	}
	wait.Wait()
}

func (p *Proxy) ask(ctx context.Context, to Route, q Question, partitions []int32) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	r.URL.Path, r.URL.RawQuery = q.Path, q.Query.Encode()
	p.address(r, to)
	r.Header.Set(HeaderPartitions, joined(partitions))
	p.sign(r, nil)
	resp, err := p.quick.RoundTrip(r)
	if err != nil {
		return nil, p.failed(ctx, to, err)
	}
	defer resp.Body.Close()
	if err := p.check(resp, to); errors.Is(err, ErrMoved) {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, movedBytes))
		return nil, &MovedError{b}
	} else if err != nil {
		return nil, p.failed(ctx, to, err)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes+1))
	switch {
	case err != nil:
		return nil, p.failed(ctx, to, err)
	case len(b) > answerBytes:
		return nil, p.failed(ctx, to, fmt.Errorf("answered more than %d bytes", answerBytes))
	case resp.StatusCode == http.StatusOK:
		return b, nil
	case resp.StatusCode >= http.StatusBadRequest && resp.StatusCode < http.StatusInternalServerError:
		return nil, &RefusedError{resp.StatusCode, b}
	}
	return nil, p.failed(ctx, to, fmt.Errorf("answered %s", resp.Status))
}
