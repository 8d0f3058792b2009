package agent

import (
	"context"
	"math"
	"sync"
	"time"
)

// Reading is not fenced: an instance that was paused, or cut off, reads and works on although others have its partitions
// by now. So before a request is started the group is asked, after the request was read, whether its partition is still
// ours. If it was, then whoever is given the partition later finds that it ends behind the request, and knows that the
// request may have been started (Assigned.Shared). This holds however long the instance is paused between the answer and
// the start. The age of the answer is bounded too, but only so that an instance that wakes does not start what others
// have done, reported and perhaps undone in the meantime.

const (
	// proofLasts is a third of the session: who was not heard of for longer may have been replaced.
	proofLasts = 3 * time.Second
	// proofTimeout bounds one question, so that what it proves lasts for a while after it.
	proofTimeout = 2 * time.Second
	// proofPause is between questions that fail: in a rebalance the next one is answered.
	proofPause = 20 * time.Millisecond
	// proofWarning is how long there is no answer before an operator is told: more than a rebalance takes.
	proofWarning = 3 * time.Second
)

// proof is the last answer to the question which partitions are ours.
type proof struct {
	// wanted wakes who asks.
	wanted chan struct{}

	// mu guards the fields below.
	mu sync.Mutex
	// asked counts the questions; pending says that the next one is wanted already. answered is the one that was answered
	// last, since when, and held the answer.
	asked, answered int64
	pending         bool
	since           time.Time
	held            map[int32]int64
}

func newProof() *proof { return &proof{wanted: make(chan struct{}, 1)} }

// last returns the number of the last question.
func (p *proof) last() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// want has a question asked that proves what was read behind the given one, unless there is one.
func (p *proof) want(behind int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked > behind || p.pending {
		return
	}
	p.pending = true
	p.wanted <- struct{}{} // there is room for one
}

func (p *proof) ask() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = false
	p.asked++
	return p.asked
}

// again has the next question asked, after one without an answer.
func (p *proof) again() { p.want(math.MaxInt64) }

// settled returns the last question that was answered.
func (p *proof) settled() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

func (p *proof) answer(question int64, since time.Time, held map[int32]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered, p.since, p.held = question, since, held
}

// standing is what is known of a request: whether it may be started by this instance.
type standing int

const (
	// unknown: no answer, to a question asked behind the reading of the request, is young enough.
	unknown standing = iota
	// gone: the partition is another's.
	gone
	// proven: it was ours.
	proven
)

// of tells how requests stand in these places, the last of which was read behind the given question.
func (p *proof) of(places []place, behind int64, now time.Time) standing {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answered <= behind || !young(p.since, now) {
		return unknown
	}
	for _, at := range places {
		if id, held := p.held[at.partition]; held && id == at.assignment {
			return proven
		}
	}
	return gone
}

// young looks at both clocks: the monotonic one stands still while a machine is suspended, the other one may be set back.
func young(since, now time.Time) bool {
	return now.Sub(since) < proofLasts && now.Round(0).Sub(since.Round(0)) < proofLasts
}

// standing returns how a request stands.
func (l *lane) standing(q *request, now time.Time) standing {
	l.mu.Lock()
	places, after := q.places[:len(q.places):len(q.places)], q.after
	l.mu.Unlock()
	if !l.marks.current(places, l.source.Partitions) {
		return gone
	}
	return l.proof.of(places, after, now)
}

// proveLoop asks when somebody wants to know; one answer serves all who wait for it.
func (l *lane) proveLoop(stop context.Context) {
	var silent time.Time // since when there is no answer, zero while there is
	warned := false
	for {
		select {
		case <-stop.Done():
			return
		case <-l.proof.wanted:
		}
		question, since := l.proof.ask(), time.Now()
		ctx, cancel := context.WithTimeout(stop, proofTimeout)
		held, err := l.source.Confirm(ctx)
		cancel()
		if err == nil {
			l.proof.answer(question, since, held)
			l.proved()
			silent, warned = time.Time{}, false
			continue
		}
		if silent.IsZero() {
			silent = since
		}
		if !warned && stop.Err() == nil && time.Since(silent) > proofWarning {
			warned = true
			l.log.Warn("work waits, since the group does not say whether its partitions are still ours",
				"agent", l.agent.name, "error", err)
		}
		l.proof.again()
		pause(stop, proofPause)
	}
}
