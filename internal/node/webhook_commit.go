package node

import (
	"context"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
)

// commit stores the positions that have changed. It resumes reading a partition that has room for more messages again.
func (w *webhooks) commit(ctx context.Context) {
	for _, s := range w.streams {
		if s.added == 0 && len(s.outstanding) <= maxOutstanding/2 {
			w.read(s)
		}
	}
	w.committed = time.Now()
	due := w.toCommit(time.Now())
	if len(due) == 0 {
		return
	}
	w.committing = true
	w.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, webhookWithin)
		defer cancel()
		w.commits <- commitResult{due, w.marks.Commit(ctx, due)}
	})
}

// toCommit returns the positions that have changed, and now and then all.
func (w *webhooks) toCommit(now time.Time) kafka.Positions {
	all := now.Sub(w.renewed) >= webhookRenew
	if all {
		w.renewed = now
	}
	due := w.left
	w.left = kafka.Positions{}
	for _, s := range w.streams {
		if s.due || all {
			s.due = false
			w.put(due, s)
		}
	}
	return due
}

func (w *webhooks) confirm(c commitResult) {
	w.committing = false
	if c.err == nil {
		return
	}
	w.often.Warn("the positions of the webhook are not committed; trying again. Until then a crash would make it deliver messages again", "error", c.err)
	for topic, partitions := range c.of {
		for p := range partitions {
			if s := w.streams[place{topic, p}]; s != nil {
				s.due = true
			}
		}
	}
}

func (w *webhooks) put(of kafka.Positions, s *webhookStream) {
	if of[s.topic] == nil {
		of[s.topic] = map[int32]kafka.Stored{}
	}
	of[s.topic][s.partition] = s.position()
}

// stop commits the outcomes of the attempts that were under way.
func (w *webhooks) stop(ctx context.Context) {
	for ; w.sending > 0; w.sending-- {
		if a := <-w.attempts; a.delivered() {
			a.stream.done(a.of)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, webhookLast)
	defer cancel()
	if due := w.toCommit(time.Now()); len(due) > 0 {
		_ = w.marks.Commit(ctx, due) // otherwise some messages are delivered again
	}
	w.sender.Close()
}
