package main

import (
	"context"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/node"
)

// pass notes how far a fact says that the inputs were judged.
func (t *tail) pass(f *events.Fact) {
	if t.passed == nil {
		return
	}
	if in, partition, offset, ok := f.Cause.Input(); ok && partition == t.partition {
		p := events.Passed{Next: offset + 1, Hash: f.CauseHash}
		if b, ok := f.Body.(*events.InputRejected); ok && b.Last > offset {
			p = events.Passed{Next: b.Last + 1}
		}
		t.raise(in, p)
	}
	switch b := f.Body.(type) {
	case *events.InputsPassed:
		for in, p := range b.Inputs {
			t.raise(in, p)
		}
	case *events.InputLossAccepted:
		t.raise(b.Input, events.Passed{})
		t.passed[b.Input][t.partition] = events.Passed{Next: b.To}
	}
}

func (t *tail) raise(in events.Input, p events.Passed) {
	if t.passed[in] == nil {
		t.passed[in] = map[int32]events.Passed{}
	}
	if p.Next > t.passed[in][t.partition].Next {
		t.passed[in][t.partition] = p
	}
}

// lost finds partitions that stop, or will at the next take-over, because an input no longer has the records that come next.
func (t *tail) lost(ctx context.Context, cluster *kafka.Cluster, namespace string) (list []doctor.Finding) {
	for _, in := range events.Inputs {
		topic := kafka.Topics{Namespace: namespace}.Input(in)
		of := kafka.Partitions{}
		for p := range t.passed[in] {
			of[topic] = append(of[topic], p)
		}
		if len(of) == 0 {
			continue
		}
		starts, err := cluster.StartOffsets(ctx, of)
		if err != nil {
			return list // other checks report it
		}
		ends, err := cluster.HighWatermarks(ctx, of)
		if err != nil {
			return list
		}
		for _, p := range of[topic] {
			if lost := node.LossOf(kafka.Topics{Namespace: namespace}, in, p, t.passed[in][p], starts[topic][p], ends[topic][p]); lost != nil {
				list = append(list, doctor.Finding{Check: checkLog, Status: doctor.StatusFail, What: "a partition stops, because its input lost records: " + lost.What,
					Remedy: lost.Remedy() + `; see docs/lost.md`})
			}
		}
	}
	return list
}
