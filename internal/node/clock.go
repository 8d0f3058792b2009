package node

import (
	"context"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
)

const (
	// clocksDiffer is how much the time of two machines may differ.
	clocksDiffer = time.Minute
	// brokersVotes is the weight of the brokers' time, which is that of the presence topic's leader: it is right more often than
	// that of a node that has just started.
	brokersVotes = 2
	// clockWithin is how long a node that starts waits for a first comparison. By then, brokers that have not answered are down,
	// and the node can decide nothing anyway.
	clockWithin = reachWithin
)

// doubt returns a function that says why this node's clock is not to be trusted. It is nil for a node that is alone: its broker has
// the same clock.
func (n *Node) doubt() func() error {
	if n.cfg.Alone {
		return nil
	}
	return n.liveness.clock
}

// clock returns what compareClock found last. All owners ask whenever they look at the time.
func (l *liveness) clock() error {
	if err := l.doubted.Load(); err != nil {
		return *err
	}
	return nil
}

// agreed returns a function that says whether this node's clock is the time of most others. It is nil for a node that is alone.
func (n *Node) agreed() func() bool {
	if n.cfg.Alone {
		return nil
	}
	return n.liveness.agrees
}

// look is what a look at this node's clock found, and when that was, by the clock and by a timer.
type look struct {
	wall   events.Instant
	at     time.Time
	agreed bool
	// setAt is when the clock was last seen to have been set.
	setAt time.Time
}

// agrees says whether this node's clock is the time of most others. Heartbeats that came before the clock was set do not count.
func (l *liveness) agrees() bool {
	last := l.looked.Load()
	return last != nil && last.agreed && time.Since(last.at) <= ownHeartbeatWithin && !l.wasSet(last)
}

// wasSet says whether the clock was set since a look. A machine that slept looks the same.
func (l *liveness) wasSet(since *look) bool {
	return (events.At(l.now()).Sub(since.wall) - time.Since(since.at)).Abs() > clocksDiffer/2
}

// lookAtClock is called now and then.
func (l *liveness) lookAtClock() {
	agreed, err := l.compareClock()
	next := look{wall: events.At(l.now()), at: time.Now()}
	if last := l.looked.Load(); last != nil {
		if next.setAt = last.setAt; l.wasSet(last) {
			next.setAt = next.at
		}
	}
	// By then each heartbeat that is still compared was sent by the clock as it is now.
	next.agreed = agreed && (next.setAt.IsZero() || next.at.Sub(next.setAt) > 2*silentAfter)
	l.looked.Store(&next)
	if err != nil {
		l.doubted.Store(&err)
	} else {
		l.doubted.Store(nil)
	}
}

// compareClock returns an error while this node's clock differs from that of most others: of the brokers, the other nodes, and
// itself. Decisions by such a clock would time out attempts, pass deadlines, and forget the IDs of tasks, for all nodes. agreed says
// that there are others, and that most of them show the same time.
func (l *liveness) compareClock() (agreed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.seen[l.selfKey()]
	if time.Since(own.at) > ownHeartbeatWithin || own.skew < -clocksDiffer/2 {
		return false, nil // it hears nobody, or is reading old records
	}
	total, against := 1, 0
	var by time.Duration
	count := func(votes int, ahead time.Duration) {
		total += votes
		if ahead.Abs() > clocksDiffer {
			against += votes
			by = -ahead
		}
	}
	if own.stamped {
		count(brokersVotes, own.broker)
	}
	for key, b := range l.seen {
		if b.Kind == events.PresenceNode && key != l.selfKey() && b.SeenAt != 0 && time.Since(b.at) <= silentAfter {
			count(1, b.skew)
		}
	}
	if 2*against <= total {
		return total > 1 && 2*against < total, nil
	}
	way := "ahead of"
	if by < 0 {
		way = "behind"
	}
	return false, fmt.Errorf("the clock of this machine is %s %s those of the brokers and nodes that answer: check its time synchronization (NTP)", by.Abs().Round(time.Second), way)
}

// awaitClock waits until this node's clock was compared with the others' and agrees. It returns false if ctx ends first.
func (l *liveness) awaitClock(ctx context.Context) bool {
	begun := time.Now()
	var said time.Time
	for {
		l.mu.Lock()
		own := l.seen[l.selfKey()]
		l.mu.Unlock()
		// Without a broker timestamp, the others get time to be heard.
		compared := own.StartedAt == events.At(l.started) && (own.stamped || time.Since(begun) > 2*heartbeatEvery)
		_, err := l.compareClock()
		if err == nil && (compared || time.Since(begun) > clockWithin) {
			return true
		}
		if err != nil && time.Since(said) > time.Minute {
			said = time.Now()
			l.log.Error("this node decides nothing until the clocks agree", "error", err)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(lookEvery / 4):
		}
	}
}
