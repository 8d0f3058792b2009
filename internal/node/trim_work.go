package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// trimScan bounds the requests for work that are read at once to find out whether their time is over.
const trimScan = 10_000

// addWork adds the requests for work that no agent needs any more. Many owners write a work topic, so one node trims all: the owner of
// partition 0. Requests behind the committed offset of the agents' group are done. Where there are no such offsets, because agents read the topic in
// another way, a request is deleted after its complete-by time and the grace.
func (t *trimmer) addWork(ctx context.Context, want map[place]int64) error {
	prefix := t.ns.topics.Work("")
	topics, err := t.ns.cluster.ListTopics(ctx, prefix)
	if err != nil {
		return err
	}
	of := kafka.Partitions{}
	var errs []error
	for _, topic := range topics {
		n, err := t.ns.cluster.Partitions(ctx, topic)
		errs = append(errs, err)
		for p := range n {
			of[topic] = append(of[topic], p)
		}
	}
	begins, err := t.ns.cluster.StartOffsets(ctx, of)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	ends, err := t.ns.cluster.EndOffsets(ctx, of)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for topic, partitions := range of {
		done, err := t.ns.cluster.CommittedOffsets(ctx, t.ns.name+".agents."+strings.TrimPrefix(topic, prefix))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, p := range partitions {
			begin, last := begins[topic][p], ends[topic][p]-1 // the last record stays: an emptied log of the embedded broker would begin at 0 again
			if begin >= last {
				continue
			}
			offset, committed := done[topic][p]
			if !committed || offset < 0 {
				if offset, err = t.expired(ctx, place{topic, p}, begin, last); err != nil {
					errs = append(errs, err)
					continue
				}
			}
			want[place{topic, p}] = min(offset, last)
		}
	}
	return errors.Join(errs...)
}

var errStillNeeded = errors.New("this one is still needed")

// expired returns the offset of the first request for work whose time is not over, or where it stopped looking. A record that is no request
// is nothing to an agent either.
func (t *trimmer) expired(ctx context.Context, at place, from, to int64) (int64, error) {
	grace, next := t.ns.catalog.Settings().Settings.Grace.Std(), from
	err := t.ns.cluster.ReadRange(ctx, at.topic, at.partition, from, min(to, from+trimScan), func(r events.Record) error {
		if w, _, err := events.DecodeWork(&r); err == nil && t.now().Before(max(w.CompleteBy, w.CapBy).Add(grace).Time()) {
			return errStillNeeded
		}
		next = r.Offset + 1
		return nil
	})
	if err != nil && !errors.Is(err, errStillNeeded) {
		return 0, fmt.Errorf("read requests for work: %w", err)
	}
	return next, nil
}
