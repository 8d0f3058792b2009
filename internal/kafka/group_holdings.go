package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sagalog/sagalog/internal/pause"
)

const (
	// learnWait bounds one try to find the holdings of assigned partitions, and how long Poll waits for them before it returns an error.
	learnWait = 5 * time.Second
	// endsWait bounds the part of a try that asks the leaders of partitions, because one of them may be gone.
	endsWait = time.Second
	// learnPause is the wait between tries. A commit that is refused during a rebalance succeeds a moment later.
	learnPause = 50 * time.Millisecond
)

// holding is our knowledge of a partition since it was assigned.
type holding struct {
	mark Mark
	// shared is where the partition ended when it was assigned. Another member may have read the records below it and may still
	// be working on them. It has not read any above, provided that it calls Confirm after reading.
	shared int64
	// lost says that the records from lostFrom on may differ from those that were read or committed before.
	lost     bool
	lostFrom int64
}

// holdingsLoop asks for the holding of each partition as soon as it is assigned, and not when its first record arrives: by then
// that record would be below the end that the broker reports.
func (g *Group) holdingsLoop(ctx context.Context) {
	defer close(g.asked)
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.ask:
		}
		for g.learn(ctx) != nil && ctx.Err() == nil {
			pause.For(ctx, learnPause)
		}
	}
}

// learn finds the committed marks of newly assigned partitions, and where the partitions end. Nobody commits for a partition
// between its assignment and this: the commits of the previous member end before it gives the partition up (onRevoked) or are
// refused because of its generation, and CommitMarks refuses ours until the mark is known.
//
// For a partition without a mark, learn commits one before the first record is returned. So a partition without a mark was never
// read, and none of its records are shared. An error leaves the partitions that were not found for the next try.
func (g *Group) learn(ctx context.Context) error {
	unknown := g.withoutHolding()
	if len(unknown) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, learnWait)
	defer cancel()
	found, err := g.find(ctx, unknown)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holdingErr = err
	for at, h := range found {
		// A partition that has moved since may have been committed by another member. Its records are dropped.
		if g.assigned[at] == h.mark.Assignment {
			g.holdings[at] = h
			delete(g.torn, at)
		}
	}
	if len(g.interrupted) > 0 && g.wake != nil {
		g.wake()
	}
	g.notify()
	return err
}

func (g *Group) withoutHolding() map[place]int64 {
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

// find may return holdings together with an error.
func (g *Group) find(ctx context.Context, unknown map[place]int64) (map[place]holding, error) {
	resp, err := g.cluster.admin.FetchOffsets(ctx, g.cfg.Group)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("read the marks of group %s: %w", g.cfg.Group, g.denied(err, ""))
	}
	used, claims := make(Marks), make(Marks)
	g.mu.Lock()
	torn := maps.Clone(g.torn)
	g.mu.Unlock()
	for at, id := range unknown {
		_, lost := torn[at]
		if o, committed := resp.Lookup(at.topic, at.partition); committed && o.At >= 0 {
			set(used, at, Mark{Assignment: id, Next: o.At, Metadata: o.Metadata})
		} else if lost {
			set(used, at, Mark{Assignment: id})
		} else {
			set(claims, at, Mark{Assignment: id})
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

// without returns the holding of a partition that lost its records from an offset on. The loss is either known, or evident because
// the commit is above the end of the log. If the mark stayed there, the records written next would be skipped.
func (h holding) without(from int64, lost bool) holding {
	if h.mark.Next > h.shared && (!lost || from > h.shared) {
		from, lost = h.shared, true
	}
	if !lost {
		return h
	}
	h.lost, h.lostFrom = true, from
	// The previous member may be working on the lost records, and on the ones that replaced them.
	h.shared = max(h.shared, h.mark.Next)
	if h.mark.Next > from {
		h.mark.Next, h.mark.Metadata = from, ""
	}
	return h
}

// bound finds the ends of partitions that were read before. A partition without a leader is left for the next try.
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

// claim commits for partitions that were never read before.
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

// notify wakes everybody who waits for news. mu is held.
func (g *Group) notify() {
	close(g.news)
	g.news = make(chan struct{})
}

// awaitMarks waits until the holding of each partition in b is known, or the partition is no longer ours.
func (g *Group) awaitMarks(ctx context.Context, b *pollResult) error {
	var late <-chan time.Time
	for {
		g.mu.Lock()
		waits := g.waits(b)
		news, reason := g.news, g.holdingErr
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

func (g *Group) waits(b *pollResult) bool {
	for run := range b.runs() {
		at := place{run[0].Topic, run[0].Partition}
		id, ours := g.assigned[at]
		if _, known := g.holdings[at]; ours && id == b.assignments[at] && !known {
			return true
		}
	}
	return false
}
