package node

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/scheduler"
	"golang.org/x/sync/errgroup"
)

// deadLetters reads the dead-letter topics, and marks the letters.
type deadLetters struct {
	ns       *namespace
	producer *kafka.Producer
}

// LetterMark implements api.DeadLetters.
func (d *deadLetters) LetterMark(letter string, written events.Instant) *api.DeadLetterMark {
	r, ok := d.ns.catalog.letters.of(letter)
	if !ok || r.Written != written {
		return nil
	}
	m := &api.DeadLetterMark{Mark: r.Mark, At: r.At, Task: r.Task, Reason: r.Reason, By: r.By}
	if r.Task != "" && r.Offset >= 0 {
		m.Partition, m.Offset = &r.Partition, &r.Offset
	}
	return m
}

// MarkLetter implements api.DeadLetters.
func (d *deadLetters) MarkLetter(ctx context.Context, m events.DeadLetterMark) error {
	r, err := scheduler.EncodeMark(&m, events.Subject{ID: uuid.NewString(), Source: "/" + d.ns.name + "/dead-letters", Time: events.At(time.Now())})
	if err != nil {
		return err
	}
	_, err = d.ns.define(ctx, d.producer, "the mark of a dead letter", r)
	return err
}

// Ranges implements api.DeadLetters.
func (d *deadLetters) Ranges(ctx context.Context) ([]api.DeadRange, error) {
	of := kafka.Partitions{}
	for _, in := range events.Inputs {
		for p := range d.ns.partitions {
			of[d.ns.topics.DeadLetters(in)] = append(of[d.ns.topics.DeadLetters(in)], p)
		}
	}
	var starts, ends kafka.Offsets
	var g errgroup.Group // both at once, because brokers that do not answer use up all the time
	g.Go(func() (err error) { starts, err = d.ns.cluster.StartOffsets(ctx, of); return err })
	g.Go(func() (err error) { ends, err = d.ns.cluster.EndOffsets(ctx, of); return err })
	err := g.Wait()
	if err != nil && !kafka.IsPassing(err) {
		return nil, err
	}
	var list []api.DeadRange
	for _, in := range events.Inputs {
		topic := d.ns.topics.DeadLetters(in)
		for p := range d.ns.partitions {
			start, from := starts[topic][p]
			end, to := ends[topic][p]
			if from && to {
				list = append(list, api.DeadRange{Input: in, Partition: p, Start: start, End: end})
			}
		}
	}
	if len(list) == 0 {
		return nil, noAnswer(err)
	}
	return list, nil
}

// Read implements api.DeadLetters.
func (d *deadLetters) Read(ctx context.Context, in events.Input, partition int32, from, to int64) ([]events.Record, error) {
	var list []events.Record
	err := d.ns.cluster.ReadRange(ctx, d.ns.topics.DeadLetters(in), partition, from, to, func(r events.Record) error {
		if !r.Control {
			list = append(list, r)
		}
		return nil
	})
	return list, noAnswer(err)
}
