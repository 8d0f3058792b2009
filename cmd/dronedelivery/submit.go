package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/sagalog/sagalog/internal/pause"
)

const (
	// batchMax keeps a request near 300 KiB: far above what batching gains, far below any limit.
	batchMax = 1000
	// senders is how many batches are under way at once, so that one slow answer does not stop the pace.
	senders = 8
	// backoffMin and backoffMax bound the pause before a batch is sent again: an engine that restarts is found within
	// a second, one that is down is not hammered.
	backoffMin, backoffMax = 100 * time.Millisecond, time.Second
)

// errRefused says that the engine will never accept some submission.
var errRefused = errors.New("some submissions were refused")

// submit sends all submissions and returns when each is acknowledged or refused.
func submit(ctx context.Context, f loadFlags, stdout, stderr io.Writer) error {
	w, err := newSubmitter(ctx, f)
	if err != nil {
		return err
	}
	defer w.close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s := &sender{flags: f, submitter: w, tally: newTally(time.Now())}

	batches := make(chan batch, senders)
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for b := range batches {
				if err := s.deliver(ctx, b); err != nil {
					fail(err)
				}
			}
		})
	}
	if !f.quiet {
		watching, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() { s.tally.watch(watching, f.count, stderr) })
		defer watch.Wait()
		defer stop()
	}
	err = pace(ctx, f, batchMax, func(b batch) error {
		select {
		case batches <- b:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(batches)
	wg.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return errors.Join(err, s.tally.refusals(), s.tally.report(stdout, time.Now()))
}

// sender sends batches. Several goroutines share it.
type sender struct {
	flags     loadFlags
	submitter submitter
	tally     *tally
}

// deliver sends a batch until each of its submissions is acknowledged or refused. The same IDs and contents make
// sending again safe.
func (s *sender) deliver(ctx context.Context, b batch) error {
	open := make([]int, 0, b.to-b.from)
	for i := b.from; i < b.to; i++ {
		open = append(open, i)
	}
	begun, backoff := time.Now(), backoffMin
	for {
		tasks := make([]dronedelivery.Task, len(open))
		for i, n := range open {
			tasks[i] = s.flags.task(n)
		}
		answers, err := s.submitter.post(ctx, tasks)
		if refusedAll := new(refusedBatch); errors.As(err, &refusedAll) {
			return err
		}
		before := len(open)
		open = s.record(b, open, answers)
		if len(open) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.tally.again(len(open))
		now := time.Now()
		if quiet := min(now.Sub(s.tally.lastAck()), now.Sub(begun)); quiet > s.flags.giveUp {
			return fmt.Errorf("gave up after %s without an acknowledgement: %w", quiet.Round(time.Second), errors.Join(err, errUnanswered))
		}
		if len(open) < before {
			backoff = backoffMin
		}
		if !pause.For(ctx, backoff) {
			return context.Cause(ctx)
		}
		backoff = min(2*backoff, backoffMax)
	}
}

// errUnanswered is returned if a batch was answered without an error but not in full.
var errUnanswered = errors.New("submissions have no answer")

// record counts the answers and returns the submissions that must be sent again.
func (s *sender) record(b batch, open []int, answers []answer) []int {
	now := time.Now()
	byID := make(map[string]answer, len(answers))
	for i, f := range answers {
		// Problems may come without the ID; the answers are in the order of the lines.
		if f.ID == "" && i < len(open) {
			f.ID = s.flags.task(open[i]).ID
		}
		byID[f.ID] = f
	}
	var again []int
	for _, i := range open {
		id := s.flags.task(i).ID
		switch f := byID[id]; f.outcome() {
		case acknowledged:
			s.tally.ack(now, now.Sub(b.due))
		case refused:
			s.tally.refuse(id + ": " + f.text())
		case unknown:
			again = append(again, i)
		}
	}
	return again
}
