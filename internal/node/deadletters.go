package node

import (
	"context"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
)

// deadLetters reads the dead-letter topics.
type deadLetters struct {
	cluster    *kafka.Cluster
	topics     kafka.Topics
	partitions int32
}

func (d *deadLetters) topic(in events.Input) string {
	if in == events.Reports {
		return d.topics.DeadReports()
	}
	return d.topics.DeadSubmissions()
}

// Ranges implements api.DeadLetters.
func (d *deadLetters) Ranges(ctx context.Context) ([]api.DeadRange, error) {
	of := kafka.Partitions{}
	for _, in := range []events.Input{events.Submissions, events.Reports} {
		for p := range d.partitions {
			of[d.topic(in)] = append(of[d.topic(in)], p)
		}
	}
	starts, err := d.cluster.StartOffsets(ctx, of)
	if err != nil {
		return nil, err
	}
	ends, err := d.cluster.EndOffsets(ctx, of)
	if err != nil {
		return nil, err
	}
	var list []api.DeadRange
	for _, in := range []events.Input{events.Submissions, events.Reports} {
		for p := range d.partitions {
			list = append(list, api.DeadRange{Input: in, Partition: p, Start: starts[d.topic(in)][p], End: ends[d.topic(in)][p]})
		}
	}
	return list, nil
}

// Read implements api.DeadLetters.
func (d *deadLetters) Read(ctx context.Context, in events.Input, partition int32, from, to int64) ([]events.Record, error) {
	var list []events.Record
	err := d.cluster.ReadRange(ctx, d.topic(in), partition, from, to, func(r events.Record) error {
		if !r.Control {
			list = append(list, r)
		}
		return nil
	})
	return list, err
}
