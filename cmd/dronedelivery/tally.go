package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// tally counts how submissions were answered.
type tally struct {
	start time.Time

	// mu guards the fields below.
	mu                     sync.Mutex
	acked, denied, repeats int
	last                   time.Time
	denial                 string
	// waits are the times from due to acknowledged, in milliseconds.
	waits []float32
}

func newTally(now time.Time) *tally { return &tally{start: now, last: now} }

func (t *tally) ack(now time.Time, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked++
	t.last = now
	t.waits = append(t.waits, float32(wait.Seconds()*1000))
}

func (t *tally) refuse(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.denied == 0 {
		t.denial = why
	}
	t.denied++
}

func (t *tally) again(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.repeats += n
}

// refusals returns an error if submissions were refused.
func (t *tally) refusals() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.denied == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d, the first one: %s", errRefused, t.denied, t.denial)
}

func (t *tally) lastAck() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// watch writes a line a second to stderr until ctx ends.
func (t *tally) watch(ctx context.Context, count int, stderr io.Writer) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		t.mu.Lock()
		acked, denied, repeats := t.acked, t.denied, t.repeats
		t.mu.Unlock()
		fmt.Fprintf(stderr, "%d of %d acknowledged, %d/s, %d refused, %d sent again\n", acked, count, acked-before, denied, repeats)
		before = acked
	}
}

// report writes one JSON line to stdout.
func (t *tally) report(stdout io.Writer, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.waits)
	seconds := now.Sub(t.start).Seconds()
	r := struct {
		Acknowledged int     `json:"acknowledged"`
		Refused      int     `json:"refused"`
		SentAgain    int     `json:"sent_again"`
		Seconds      float64 `json:"seconds"`
		Rate         float64 `json:"rate"`
		AckP50       float32 `json:"ack_p50_ms"`
		AckP99       float32 `json:"ack_p99_ms"`
		AckMax       float32 `json:"ack_max_ms"`
	}{t.acked, t.denied, t.repeats, seconds, float64(t.acked) / seconds, quantile(t.waits, 0.5), quantile(t.waits, 0.99), quantile(t.waits, 1)}
	if err := json.NewEncoder(stdout).Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
