package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kadm"
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

// learnWait bounds one question for what was committed; the next Poll asks again.
const learnWait = 5 * time.Second

// batch is what was polled, with the assignments that it was polled under.
type batch struct {
	records     []events.Record
	assignments map[place]int64
}

// learn reads what was committed of partitions whose first records are about to be handed out. Nobody commits for them
// between their assignment and this: their last member's commits end before it gives them up (onRevoked) or are refused
// for its generation, and CommitMarks refuses ours until the mark is known.
func (g *Group) learn(ctx context.Context, b *batch) error {
	unknown := false
	g.mu.Lock()
	for _, r := range b.records {
		at := place{r.Topic, r.Partition}
		unknown = unknown || g.marks[at].Assignment != b.assignments[at]
	}
	g.mu.Unlock()
	if !unknown {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, learnWait)
	defer cancel()
	resp, err := g.cluster.admin.FetchOffsets(ctx, g.cfg.Group)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return fmt.Errorf("read the marks of group %s: %w", g.cfg.Group, err)
	}
	committed := make(map[place]Mark)
	resp.Each(func(o kadm.OffsetResponse) {
		committed[place{o.Topic, o.Partition}] = Mark{Next: max(0, o.At), Metadata: o.Metadata}
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	for at, id := range b.assignments {
		// What has moved since was perhaps committed by another; its records are dropped.
		if g.assigned[at] == id && g.marks[at].Assignment != id {
			m := committed[at]
			m.Assignment = id
			g.marks[at] = m
		}
	}
	return nil
}

// current returns the records of partitions that are still under the assignment that they were polled under. The others
// belong to whoever has the partition now, and are fetched again.
func (g *Group) current(b *batch) []events.Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := b.records[:0]
	for _, r := range b.records {
		at := place{r.Topic, r.Partition}
		if id, ok := b.assignments[at]; ok && g.marks[at].Assignment == id {
			out = append(out, r)
		}
	}
	return out
}

// Mark returns what was committed of a partition when it was assigned. It belongs to the records that Poll returned
// last, and is for the goroutine that polls.
func (g *Group) Mark(topic string, partition int32) Mark {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.marks[place{topic, partition}]
}

// CommitMarks is Commit with metadata, for partitions that were polled. It leaves out those that are not under the
// mark's assignment any more, and returns the others; they are durable. A revocation waits for it: the next member
// reads marks only after our last commit, which the broker would take even then, as it checks the generation only.
func (g *Group) CommitMarks(ctx context.Context, marks Marks) (Marks, error) {
	g.committing.RLock()
	defer g.committing.RUnlock()
	ours := g.ours(marks)
	if len(ours) == 0 {
		return nil, nil
	}
	offsets := make(Offsets, len(ours))
	for topic, partitions := range ours {
		offsets[topic] = make(map[int32]int64, len(partitions))
		for p, m := range partitions {
			offsets[topic][p] = m.Next
		}
	}
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				p := &req.Topics[i].Partitions[j]
				p.Metadata = kmsg.StringPtr(ours[req.Topics[i].Topic][p.Partition].Metadata)
			}
		}
		return nil
	})
	if err := g.Commit(ctx, offsets); err != nil {
		return nil, err
	}
	return ours, nil
}

func (g *Group) ours(marks Marks) Marks {
	g.mu.Lock()
	defer g.mu.Unlock()
	ours := make(Marks)
	for topic, partitions := range marks {
		for p, m := range partitions {
			at := place{topic, p}
			if id, ok := g.assigned[at]; !ok || id != m.Assignment || g.marks[at].Assignment != id {
				continue
			}
			if ours[topic] == nil {
				ours[topic] = make(map[int32]Mark)
			}
			ours[topic][p] = m
		}
	}
	return ours
}
