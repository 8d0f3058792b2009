package node

import (
	"context"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
)

// deadLetters reads the dead-letter topics.
type deadLetters struct{ ns *namespace }

// Ranges implements api.DeadLetters.
func (d *deadLetters) Ranges(ctx context.Context) ([]api.DeadRange, error) {
	of := kafka.Partitions{}
	for _, in := range events.Inputs {
		for p := range d.ns.partitions {
			of[d.ns.topics.DeadLetters(in)] = append(of[d.ns.topics.DeadLetters(in)], p)
		}
	}
	starts, err := d.ns.cluster.StartOffsets(ctx, of)
	if err != nil {
		return nil, noAnswer(err)
	}
	ends, err := d.ns.cluster.EndOffsets(ctx, of)
	if err != nil {
		return nil, noAnswer(err)
	}
	var list []api.DeadRange
	for _, in := range events.Inputs {
		for p := range d.ns.partitions {
			list = append(list, api.DeadRange{Input: in, Partition: p, Start: starts[d.ns.topics.DeadLetters(in)][p], End: ends[d.ns.topics.DeadLetters(in)][p]})
		}
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
