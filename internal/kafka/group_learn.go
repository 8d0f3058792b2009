package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// learnWait bounds one try to learn what is known of assigned partitions, and how long Poll waits for it before it
	// says why it cannot go on.
	learnWait = 5 * time.Second
	// endsWait bounds the part of a try that asks the leaders of partitions, of which one may be gone.
	endsWait = time.Second
	// learnPause is between tries: a commit that is refused during a rebalance goes through a moment later.
	learnPause = 50 * time.Millisecond
)

// holding is what is known of a partition since its assignment.
type holding struct {
	mark Mark
	// shared is where the partition ended when it was assigned: another member may have read what lies below, and may
	// be at work on it still. It read nothing above, if it asks Confirm after it has read.
	shared int64
	// lost says that the records from lostFrom on may not be those that were there when they were read or committed.
	lost     bool
	lostFrom int64
}

// learnLoop learns each assigned partition at once, and not when its first record has come: that one would lie below the
// end that is asked for.
func (g *Group) learnLoop(ctx context.Context) {
	defer close(g.asked)
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.ask:
		}
		for g.learn(ctx) != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(learnPause):
			}
		}
	}
}

// learn reads what was committed of partitions that were assigned, and where they end. Nobody commits for them between
// their assignment and this: their last member's commits end before it gives them up (onRevoked) or are refused for its
// generation, and CommitMarks refuses ours until the mark is known.
//
// Where nothing was committed it commits, before the first record is handed out. So no commit means no reader: then
// nothing is shared.
func (g *Group) learn(ctx context.Context) error {
	unknown := g.unlearned()
	if len(unknown) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, learnWait)
	defer cancel()
	found, err := g.find(ctx, unknown)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unlearnt = err
	for at, h := range found {
		// What has moved since was perhaps committed by another; its records are dropped.
		if g.assigned[at] == h.mark.Assignment {
			g.holdings[at] = h
			delete(g.torn, at)
		}
	}
	if len(g.interrupted) > 0 && g.wake != nil {
		g.wake()
	}
	g.tell()
	return err
}

func (g *Group) unlearned() map[place]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make(map[place]int64)
	for at, id := range g.assigned {
		if _, known := g.holdings[at]; !known {
			out[at] = id
		}
	}
	return out
}

// find returns what it finds, also beside an error.
func (g *Group) find(ctx context.Context, unknown map[place]int64) (map[place]holding, error) {
	resp, err := g.cluster.admin.FetchOffsets(ctx, g.cfg.Group)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("read the marks of group %s: %w", g.cfg.Group, err)
	}
	used, claims := make(Marks), make(Marks)
	g.mu.Lock()
	torn := maps.Clone(g.torn)
	g.mu.Unlock()
	for at, id := range unknown {
		_, lost := torn[at]
		if o, committed := resp.Lookup(at.topic, at.partition); committed && o.At >= 0 {
			used.set(at, Mark{Assignment: id, Next: o.At, Metadata: o.Metadata})
		} else if lost {
			used.set(at, Mark{Assignment: id})
		} else {
			claims.set(at, Mark{Assignment: id})
		}
	}
	found := make(map[place]holding, len(unknown))
	err = errors.Join(g.bound(ctx, used, found), g.claim(ctx, claims, found))
	for at, h := range found {
		from, lost := torn[at]
		found[at] = h.without(from, lost)
	}
	return found, err
}

// without returns the holding of a partition that is known to have lost its records from an offset on, or of which that
// shows: what was committed lies behind its end. A mark that stayed there would have what is written next passed over.
func (h holding) without(from int64, lost bool) holding {
	if h.mark.Next > h.shared && (!lost || from > h.shared) {
		from, lost = h.shared, true
	}
	if !lost {
		return h
	}
	h.lost, h.lostFrom = true, from
	// Who had the partition may be at work on what was lost, and on what is in its place.
	h.shared = max(h.shared, h.mark.Next)
	if h.mark.Next > from {
		h.mark.Next, h.mark.Metadata = from, ""
	}
	return h
}

// bound finds where partitions end that others have read before. One whose leader is gone is left for the next try.
func (g *Group) bound(ctx context.Context, used Marks, found map[place]holding) error {
	ctx, cancel := context.WithTimeout(ctx, endsWait)
	defer cancel()
	of := make(Partitions, len(used))
	for topic, partitions := range used {
		of[topic] = slices.Collect(maps.Keys(partitions))
	}
	ends, err := g.cluster.HighWatermarks(ctx, of)
	for topic, partitions := range ends {
		for p, end := range partitions {
			found[place{topic, p}] = holding{mark: used[topic][p], shared: end}
		}
	}
	if err != nil {
		return fmt.Errorf("read where the topics of group %s end: %w", g.cfg.Group, err)
	}
	return nil
}

// claim commits for partitions that nobody has read before.
func (g *Group) claim(ctx context.Context, claims Marks, found map[place]holding) error {
	if err := g.committing.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	defer g.committing.Release(1)
	if err := g.store(ctx, claims); err != nil {
		return err
	}
	for topic, partitions := range claims {
		for p, m := range partitions {
			found[place{topic, p}] = holding{mark: m}
		}
	}
	return nil
}

// tell wakes who waits for news. mu is held.
func (g *Group) tell() {
	close(g.news)
	g.news = make(chan struct{})
}

// awaitMarks waits until it is known of each partition in a batch what was committed, or that it is not ours any more.
func (g *Group) awaitMarks(ctx context.Context, b *batch) error {
	var late <-chan time.Time
	for {
		g.mu.Lock()
		waits := g.waits(b)
		news, reason := g.news, g.unlearnt
		g.mu.Unlock()
		if !waits {
			return nil
		}
		if late == nil {
			late = time.After(learnWait)
		}
		select {
		case <-news:
		case <-late:
			if reason == nil {
				reason = context.DeadlineExceeded
			}
			return fmt.Errorf("learn what was committed: %w", reason)
		case <-g.client.Context().Done():
			return fmt.Errorf("poll: %w", ErrClosed)
		case <-ctx.Done():
			return fmt.Errorf("poll: %w", context.Cause(ctx))
		}
	}
}

func (g *Group) waits(b *batch) bool {
	for run := range b.runs() {
		at := place{run[0].Topic, run[0].Partition}
		id, ours := g.assigned[at]
		if _, known := g.holdings[at]; ours && id == b.assignments[at] && !known {
			return true
		}
	}
	return false
}
