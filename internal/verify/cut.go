package verify

import (
	"context"

	"github.com/sagalog/sagalog/events"
)

// readCutLog reads a partition whose log was cut. It folds it from the carry with which it begins, so that the fold and the ownership are checked as
// ever. The other checks need the facts before the cut.
func readCutLog(ctx context.Context, p *partition, b Bounds) error {
	p.cut = append(p.cut, p.number)
	p.unread = true
	p.owners.cut, p.owners.rule.cut = true, true
	p.fold = newFolding(p)
	err := p.cfg.Log.Read(ctx, Span{Topic: p.topics.Events, Partition: p.number, From: b.Start, To: b.End}, func(r events.Record) error {
		if r.Offset%progressEvery == 0 {
			p.progress(p.topics.Events, p.number, r.Offset, b.End)
		}
		f, err := p.folded(&r)
		if f != nil {
			p.count.Facts++
			p.settled.take(f)
		}
		return err
	})
	if err != nil {
		return err
	}
	if p.fold.state.Partition.Loading() {
		p.wrong(CheckFold, "cut", p.place(b.End), "the log ends within the carry with which it begins: the state is not complete")
	}
	e := extentOf(p, b)
	e.Hash, err = p.fold.finish(b.End)
	p.extents = append(p.extents, e)
	return err
}

// reportCuts says what could not be checked because of logs that were cut.
func (c *check) reportCuts() {
	if len(c.cut) == 0 {
		return
	}
	for _, check := range []string{CheckInputs, CheckAttempts, CheckMovers, CheckUndo, CheckEffects} {
		c.book.cannot(check, "the log of partitions %v of %s was cut (the setting keep_log): this check needs the facts before that", c.cut, c.topics.Events)
	}
}
