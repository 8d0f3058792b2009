package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Follow opens a stream of events of another node about some of its partitions, after an event ID. The caller closes it. It ends with ctx.
func (p *Proxy) Follow(ctx context.Context, to Route, partitions []int32, q Question, after string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(AnswerWithin, func() { cancel(errSilent) })
	defer late.Stop()
	resp, err := p.open(ctx, to, partitions, q, after)
	p.outcomes.WithLabelValues(outcomeOf(err)).Inc()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	return followed{resp.Body, cancel}, nil
}

func (p *Proxy) open(ctx context.Context, to Route, partitions []int32, q Question, after string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	r.URL.Path, r.URL.RawQuery = q.Path, q.Query.Encode()
	r.Header.Set("Accept", eventStream)
	r.Header.Set("Last-Event-ID", after)
	p.address(r, to)
	r.Header.Set(HeaderPartitions, joined(partitions))
	p.sign(r, nil)
	resp, err := p.long.RoundTrip(r)
	if err != nil {
		return nil, p.failed(ctx, to, err)
	}
	err = p.check(resp, to)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), eventStream)) {
		err = fmt.Errorf("answered %s", resp.Status)
	}
	if err != nil {
		resp.Body.Close()
		if errors.Is(err, ErrMoved) {
			return nil, err
		}
		return nil, p.failed(ctx, to, err)
	}
	return resp, nil
}

// followed ends the request with its stream.
type followed struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (f followed) Close() error {
	f.cancel(nil)
	return f.ReadCloser.Close()
}

func joined(partitions []int32) string {
	texts := make([]string, len(partitions))
	for i, n := range partitions {
		texts[i] = strconv.Itoa(int(n))
	}
	return strings.Join(texts, ",")
}
