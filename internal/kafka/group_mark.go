package kafka

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Mark is what a group has committed, or is to commit, of a partition.
type Mark struct {
	// Assignment names the assignment of the partition to this member that the mark belongs to; no two have the same.
	Assignment int64
	// Next is the offset to start from next time.
	Next int64
	// Metadata is kept with it. Brokers refuse more than 4096 bytes unless they are told otherwise.
	Metadata string
}

// Marks holds a mark for each partition.
type Marks map[string]map[int32]Mark

func (m Marks) set(at place, mark Mark) {
	if m[at.topic] == nil {
		m[at.topic] = make(map[int32]Mark)
	}
	m[at.topic][at.partition] = mark
}

// batch is what was polled, with the assignments that it was polled under.
type batch struct {
	records     []events.Record
	assignments map[place]int64
}

// current returns the records of partitions that are still under the assignment that they were polled under. The others
// belong to whoever has the partition now, and are fetched again; so are those that were interrupted.
func (g *Group) current(b *batch) []events.Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := b.records[:0]
	g.handed = make(map[place]holding)
	for run := range b.runs() {
		at := place{run[0].Topic, run[0].Partition}
		id, polled := b.assignments[at]
		_, interrupted := g.interrupted[at]
		if held := g.holdings[at]; polled && !interrupted && held.mark.Assignment == id {
			g.handed[at] = held
			out = append(out, run...)
		}
	}
	return out
}

// runs gives the records in runs of one partition each. They come so from the client.
func (b *batch) runs() iter.Seq[[]events.Record] {
	return func(yield func([]events.Record) bool) {
		for rest := b.records; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].Partition == rest[0].Partition && rest[n].Topic == rest[0].Topic {
				n++
			}
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// Mark returns what was committed of a partition when it was assigned. It belongs to the records that Poll returned
// last, also where the partition was assigned anew since, and is for the goroutine that polls.
func (g *Group) Mark(topic string, partition int32) Mark {
	return g.handed[place{topic, partition}].mark
}

// Shared returns the offset below which another member may have read of a partition, and may still be at work on what
// it read, since it may not know yet that the partition is ours. It belongs to the records that Poll returned last.
func (g *Group) Shared(topic string, partition int32) int64 {
	return g.handed[place{topic, partition}].shared
}

// LostFrom tells whether a partition is known to have lost records, and from which offset on its records may be others than
// those that were committed or read before. It belongs to the records that Poll returned last.
func (g *Group) LostFrom(topic string, partition int32) (int64, bool) {
	h := g.handed[place{topic, partition}]
	return h.lostFrom, h.lost
}

// CommitMarks is Commit with metadata, for partitions that were polled. It leaves out those that are not under the
// mark's assignment any more, and returns the others; they are durable. Where the group refuses, as it does in the
// middle of a rebalance, it returns none: that is no error. A revocation waits for it: the next member reads marks only
// after our last commit, which the broker would take even then, as it checks the generation only.
func (g *Group) CommitMarks(ctx context.Context, marks Marks) (Marks, error) {
	if err := g.committing.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	defer g.committing.Release(1)
	ours := g.ours(marks)
	err := g.store(ctx, ours)
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return ours, nil
}

// refusals say that the group knows this member by another name or generation, or no more.
var refusals = []error{
	errNotAssigned, kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.FencedInstanceID,
}

// store commits marks under the membership that their partitions were assigned to.
func (g *Group) store(ctx context.Context, marks Marks) error {
	offsets := make(Offsets, len(marks))
	for topic, partitions := range marks {
		offsets[topic] = make(map[int32]int64, len(partitions))
		for p, m := range partitions {
			offsets[topic][p] = m.Next
		}
	}
	return g.Commit(kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				p := &req.Topics[i].Partitions[j]
				p.Metadata = kmsg.StringPtr(marks[req.Topics[i].Topic][p.Partition].Metadata)
			}
		}
		return g.mayCommit(membership{req.MemberID, req.Generation}, marks)
	}), offsets)
}

// mayCommit is asked when it stands who commits: the client may have joined again in the meantime, and then others may
// have had the partitions.
func (g *Group) mayCommit(as membership, marks Marks) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !as.follows(g.session) {
		return errNotAssigned
	}
	for topic, partitions := range marks {
		for p, m := range partitions {
			if g.assigned[place{topic, p}] != m.Assignment {
				return errNotAssigned
			}
		}
	}
	return nil
}

func (g *Group) ours(marks Marks) Marks {
	g.mu.Lock()
	defer g.mu.Unlock()
	ours := make(Marks)
	for topic, partitions := range marks {
		for p, m := range partitions {
			at := place{topic, p}
			if id, ok := g.assigned[at]; ok && id == m.Assignment && g.holdings[at].mark.Assignment == id {
				ours.set(at, m)
			}
		}
	}
	return ours
}
