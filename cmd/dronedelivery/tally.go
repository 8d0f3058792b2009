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

// tally counts what became of the submissions.
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

func (t *tally) refused() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.denied
}

func (t *tally) firstRefusal() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.denial
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
	}{t.acked, t.denied, t.repeats, seconds, float64(t.acked) / seconds, t.quantile(0.5), t.quantile(0.99), t.quantile(1)}
	if err := json.NewEncoder(stdout).Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// quantile reads sorted waits.
func (t *tally) quantile(q float64) float32 {
	if len(t.waits) == 0 {
		return 0
	}
	return t.waits[int(q*float64(len(t.waits)-1))]
}
