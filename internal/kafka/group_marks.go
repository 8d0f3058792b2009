package kafka

import (
	"context"
	"fmt"
	"iter"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Mark is the position that a group has committed, or will commit, for a partition.
type Mark struct {
	// Assignment is the number of the assignment to this member that the mark belongs to. Numbers are never reused.
	Assignment int64
	// Next is the offset to start from next time.
	Next int64
	// Metadata is stored with the offset. By default brokers refuse more than 4096 bytes.
	Metadata string
}

// Marks holds a mark for each partition.
type Marks map[string]map[int32]Mark

// pollResult holds the polled records, with the assignments at that time.
type pollResult struct {
	records     []events.Record
	assignments map[place]int64
}

// current returns the records of partitions whose assignment has not changed since they were polled. The other records belong to another
// member by now and are fetched again. So are the records of interrupted partitions.
func (g *Group) current(b *pollResult) []events.Record {
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

// runs yields the records in runs of one partition each, as the client returns them.
func (b *pollResult) runs() iter.Seq[[]events.Record] {
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

// Mark returns the committed position of a partition at its assignment. It is valid for the records that Poll returned last, even if
// the partition was assigned again since. Only the goroutine that polls may call it.
func (g *Group) Mark(topic string, partition int32) Mark {
	return g.handed[place{topic, partition}].mark
}

// Shared returns the offset below which another member may have read a partition. That member may still be working on what it read,
// because it may not know yet that the partition is now ours. It is valid for the records that Poll returned last.
func (g *Group) Shared(topic string, partition int32) int64 {
	return g.handed[place{topic, partition}].shared
}

// LostFrom reports whether a partition has lost records, and from which offset on its records may differ from those that were committed or
// read before. It is valid for the records that Poll returned last.
func (g *Group) LostFrom(topic string, partition int32) (int64, bool) {
	h := g.handed[place{topic, partition}]
	return h.lostFrom, h.lost
}

// CommitMarks is Commit with metadata, for partitions that were polled. It skips marks of an assignment that is over, and returns the
// marks that it stored, which are durable. If the group refuses the commit, for example in the middle of a rebalance, it returns
// no marks and no error. A revocation waits for it: the next member must not read the marks before our last commit, which the
// broker would still accept after that, because it checks only the generation.
func (g *Group) CommitMarks(ctx context.Context, marks Marks) (Marks, error) {
	if err := g.committing.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	defer g.committing.Release(1)
	ours := g.ours(marks)
	err := g.store(ctx, ours)
	if isOneOf(err, refusals) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ours, nil
}

// refusals say that the group knows this member under another name or generation, or not at all.
var refusals = []error{
	errNotAssigned, kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.FencedInstanceID,
}

// store commits marks under the membership that their partitions were assigned to.
func (g *Group) store(ctx context.Context, marks Marks) error {
	offsets := make(Offsets, len(marks))
	for topic, partitions := range marks {
		for p, m := range partitions {
			set(offsets, place{topic, p}, m.Next)
		}
	}
	return g.commitPolled(kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				p := &req.Topics[i].Partitions[j]
				p.Metadata = kmsg.StringPtr(marks[req.Topics[i].Topic][p.Partition].Metadata)
			}
		}
		return g.mayCommit(membership{req.MemberID, req.Generation}, marks)
	}), offsets)
}

// mayCommit is called when the committing identity is final. The client may have joined again in the meantime, and others may have had
// the partitions in between.
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
				set(ours, at, m)
			}
		}
	}
	return ours
}
