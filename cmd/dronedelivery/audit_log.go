package main

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

// logBook is the content of the log: the deliveries, the epochs, and counts. Package verify checks the log, reads it
// and passes each fact on.
type logBook struct {
	// namespace is the UUID from which identifiers for remote services are made.
	namespace uuid.UUID
	// prefix is the prefix of the deliveries' IDs.
	prefix  string
	stories map[string]*story
	tenures []*tenure
	// alerting are the facts that raise an alert, by their ce_id.
	alerting map[string]bool
	// asked holds when each submission was written.
	asked  map[events.Cause]events.Instant
	Counts logCounts
}

// logCounts are the figures of the log in the summary.
type logCounts struct {
	Partitions int `json:"partitions"`
	Records    int `json:"records"`
	Facts      int `json:"facts"`
	// Epochs are the valid claims.
	Epochs int `json:"epochs"`
	// Void counts the records that every reader skips, by reason.
	Void map[string]int `json:"void"`
	// Broken are the epochs in which a sequence was missing.
	Broken   int            `json:"broken_epochs"`
	Attempts int            `json:"attempts"`
	Retries  int            `json:"retries"`
	Timeouts int            `json:"timeouts"`
	Undos    int            `json:"undos"`
	Rejected map[string]int `json:"rejected"`
}

func newLogBook(prefix string) *logBook {
	return &logBook{
		prefix: prefix, stories: map[string]*story{}, alerting: map[string]bool{}, Counts: logCounts{Rejected: map[string]int{}},
	}
}

// fact takes the next record of a partition; accepted says whether the log accepted it.
func (b *logBook) fact(f *events.Fact, r *events.Record, accepted bool) {
	b.Counts.Records++
	t := b.tenure(r.Partition)
	if _, claim := f.Body.(*events.PartitionClaimed); claim {
		if accepted {
			b.Counts.Facts++
			b.Counts.Epochs++
			t.claim(f, r)
		}
		return
	}
	t.count(f, r, accepted)
	if !accepted {
		return
	}
	b.Counts.Facts++
	if raisesAlert(f) {
		b.alerting[events.FactID(f, r.Partition)] = true
	}
	switch body := f.Body.(type) {
	case *events.Unreadable:
	case *events.InputRejected:
		b.Counts.Rejected[body.Reason]++ // it is about an input, not about the task with that ID
	default:
		if f.Task != "" && strings.HasPrefix(f.Task, b.prefix) {
			s := b.story(f.Task, r.Partition)
			s.measure(f, b.asked[f.Cause])
			s.fold(f, &b.Counts)
		}
	}
}

func (b *logBook) story(task string, partition int32) *story {
	s := b.stories[task]
	if s == nil {
		s = &story{id: task, partition: partition, doings: map[operation]*doing{}, runs: map[string]int{}}
		b.stories[task] = s
	}
	return s
}

// tenure returns the epochs of a partition. Partitions come one after another.
func (b *logBook) tenure(partition int32) *tenure {
	if n := len(b.tenures); n > 0 && b.tenures[n-1].Partition == partition {
		return b.tenures[n-1]
	}
	t := &tenure{Partition: partition}
	b.tenures = append(b.tenures, t)
	return t
}

// readTopic reads a whole topic, without markers. A topic that does not exist is empty.
func readTopic(ctx context.Context, log verify.Log, topic string, take func(*events.Record)) error {
	bounds, err := log.Bounds(ctx, topic)
	if err != nil {
		return err
	}
	for p, b := range bounds {
		err := log.Read(ctx, verify.Span{Topic: topic, Partition: int32(p), From: b.Start, To: b.End}, func(r events.Record) error {
			if !r.Control {
				take(&r)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
