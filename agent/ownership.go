package agent

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/sagalog/sagalog/agent/internal/offsets"
	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/internal/pause"
)

// Reading is not fenced: an instance that was paused or cut off keeps reading and working although others have its partitions
// by now. So between reading a request and starting it, the instance asks the group whether the partition is still its own. If
// it is, an instance that is assigned the partition later finds the request below the end of the partition, and knows that it
// may have been started (Assigned.Shared). This holds however long this instance is paused between the answer and the start.
// The age of the answer is bounded too, but only so that an instance that wakes does not start what others have done, reported
// and perhaps undone in the meantime.

const (
	// answerLasts is a third of the session: an instance that was silent for longer may have been replaced.
	answerLasts = 3 * time.Second
	// answerTimeout bounds one question, so that its answer is still fresh enough to use.
	answerTimeout = 2 * time.Second
	// answerPause is the wait after a question that failed: during a rebalance a later one succeeds.
	answerPause = 20 * time.Millisecond
	// answerWarning is how long answers may be missing before a warning is logged. It is longer than a rebalance takes.
	answerWarning = 3 * time.Second
)

// ownership holds the latest answer to the question of which partitions are ours. Questions are numbered from 1.
type ownership struct {
	// wanted wakes run.
	wanted chan struct{}

	// mu guards the fields below.
	mu sync.Mutex
	// asked counts the questions. pending says that another one is already requested.
	asked   int64
	pending bool
	// answered is the number of the last question that was answered, since the time at which it was asked, and assignments its
	// answer.
	answered    int64
	since       time.Time
	assignments map[int32]int64
}

func newOwnership() *ownership { return &ownership{wanted: make(chan struct{}, 1)} }

// lastAsked returns the number of the last question.
func (o *ownership) lastAsked() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}

// lastAnswered returns the number of the last question that was answered.
func (o *ownership) lastAnswered() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answered
}

// ask makes run ask a question later than the given one, unless it has already done so.
func (o *ownership) ask(after int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked > after || o.pending {
		return
	}
	o.pending = true
	o.wanted <- struct{}{} // there is room for one
}

func (o *ownership) begin() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = false
	o.asked++
	return o.asked
}

func (o *ownership) answer(question int64, since time.Time, assignments map[int32]int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answered, o.since, o.assignments = question, since, assignments
}

// standing says whether this instance may start a request, as far as it knows.
type standing int

const (
	// unknown: no answer to a question that was asked after the request was read is recent enough.
	unknown standing = iota
	// lost: the partition is another instance's.
	lost
	// owned: the partition is ours.
	owned
)

// check returns the standing of a request in these places, the last of which was read after the given question was asked.
func (o *ownership) check(places []offsets.Place, after int64, now time.Time) standing {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.answered <= after || !recent(o.since, now) {
		return unknown
	}
	for _, at := range places {
		if id, ours := o.assignments[at.Partition]; ours && id == at.Assignment {
			return owned
		}
	}
	return lost
}

// recent checks both clocks: the monotonic clock stands still while a machine is suspended, and the wall clock may be set back.
func recent(since, now time.Time) bool {
	return now.Sub(since) < answerLasts && now.Round(0).Sub(since.Round(0)) < answerLasts
}

// run asks the group whenever a question is wanted, and calls answered after each answer, which serves all requests that
// wait.
func (o *ownership) run(stop context.Context, source transport.Source, answered func(), log *slog.Logger) {
	var silent time.Time // when answers stopped, or zero
	warned := false
	for {
		select {
		case <-stop.Done():
			return
		case <-o.wanted:
		}
		question, since := o.begin(), time.Now()
		ctx, cancel := context.WithTimeout(stop, answerTimeout)
		assignments, err := source.Confirm(ctx)
		cancel()
		if err == nil {
			o.answer(question, since, assignments)
			answered()
			silent, warned = time.Time{}, false
			continue
		}
		if silent.IsZero() {
			silent = since
		}
		if !warned && stop.Err() == nil && time.Since(silent) > answerWarning {
			warned = true
			log.Warn("work waits because the group has not confirmed that its partitions still belong to this instance", "error", err)
		}
		o.ask(math.MaxInt64)
		pause.For(stop, answerPause)
	}
}
