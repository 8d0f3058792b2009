package node

import (
	"context"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

const (
	// leadersEvery is how often the leaders of the partitions are probed, and leadersWithin how long they may take to answer.
	leadersEvery  = time.Second
	leadersWithin = 2 * time.Second
	// unreachedAfter is how long a leader may fail to answer before this node says so to the others. It is so much shorter than
	// giveUpAfter that, if no node reaches that leader, all of them have said so before the first would give its partitions to
	// another.
	unreachedAfter = 3 * time.Second
	// giveUpAfter is how long it takes until this node gives up the partitions: a leader that moves needs less.
	giveUpAfter = 8 * time.Second
)

// reach knows which partitions have a leader, of their log or their inputs, that does not answer this node.
type reach struct {
	ns *namespace
	// mu guards since.
	mu sync.Mutex
	// since is, by partition, when the first of the current run of unanswered questions was asked. Time in which nothing was
	// asked, because the process slept, does not count.
	since map[int32]time.Time
}

// Run asks until ctx ends.
func (r *reach) Run(ctx context.Context) error {
	return every(ctx, leadersEvery, func() { r.ask(ctx) })
}

func (r *reach) ask(ctx context.Context) {
	asked := time.Now()
	of := kafka.Partitions{}
	for _, topic := range []string{r.ns.topics.Events(), r.ns.topics.Input(events.Submissions), r.ns.topics.Input(events.Reports)} {
		for p := range r.ns.partitions {
			of[topic] = append(of[topic], p)
		}
	}
	within, cancel := context.WithTimeout(ctx, leadersWithin)
	defer cancel()
	ends, _ := r.ns.cluster.HighWatermarks(within, of) // partitions without an end got no answer
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.ns.partitions {
		answered := true
		for topic := range of {
			_, ok := ends[topic][p]
			answered = answered && ok
		}
		if answered {
			delete(r.since, p)
		} else if r.since[p].IsZero() {
			r.since[p] = asked
		}
	}
}

// unreached says whether a leader of the partition has not answered for that long.
func (r *reach) unreached(p int32, after time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := r.since[p]
	return !since.IsZero() && time.Since(since) > after
}
