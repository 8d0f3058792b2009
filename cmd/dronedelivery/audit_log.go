package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// logBook is what the log tells: the deliveries, and counts.
type logBook struct {
	// namespace is the UUID in which remote services see identifiers.
	namespace uuid.UUID
	stories   map[string]*story
	tenures   []*tenure
	reaches   reaches
	// asked is when each submission was written.
	asked map[events.Cause]events.Instant
	// faults are disagreements of the log with itself.
	faults []disagreement
	Counts logCounts
}

// logCounts are the figures of the log in the summary.
type logCounts struct {
	Partitions int32 `json:"partitions"`
	Records    int   `json:"records"`
	Facts      int   `json:"facts"`
	// Epochs are the valid claims.
	Epochs int `json:"epochs"`
	// Void are the records that every reader skips, by what makes them void.
	Void map[string]int `json:"void"`
	// Broken are the epochs in which a sequence was missing.
	Broken   int            `json:"broken_epochs"`
	Attempts int            `json:"attempts"`
	Retries  int            `json:"retries"`
	Timeouts int            `json:"timeouts"`
	Undos    int            `json:"undos"`
	Rejected map[string]int `json:"rejected"`
}

// The ways in which a record is void.
const (
	voidClaim    = "late_claim"
	voidEpoch    = "other_epoch"
	voidSequence = "not_the_next_sequence"
)

// rule is the rule by which every reader of the log tells facts from void records (events/FORMAT.md). It is written
// here once more on purpose: an audit that used the engine's fold would share its mistakes.
type rule struct {
	n      uint64
	id     string
	next   uint64
	broken bool
}

// judge returns "" for a fact, else why the record is void.
func (r *rule) judge(f *events.Fact) string {
	if c, ok := f.Body.(*events.PartitionClaimed); ok {
		if c.Prev != r.id || c.ID == "" || c.ID == r.id {
			return voidClaim
		}
		*r = rule{n: r.n + 1, id: c.ID}
		return ""
	}
	switch {
	case r.n == 0, f.Epoch.N != r.n, f.Epoch.ID != r.id:
		return voidEpoch
	case r.broken, f.Sequence != r.next:
		r.broken = r.broken || f.Sequence > r.next
		return voidSequence
	}
	r.next++
	return ""
}

// readTopic reads a whole topic, without markers.
func readTopic(ctx context.Context, c *kafka.Cluster, topic string, take func(*events.Record)) error {
	partitions, err := c.Partitions(ctx, topic)
	if err != nil {
		return err
	}
	for p := range partitions {
		from, err := c.StartOffset(ctx, topic, p)
		if err != nil {
			return err
		}
		err = c.ReadRange(ctx, topic, p, from, -1, func(r events.Record) error {
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

// readLog reads all partitions of the events topic. Of the tasks it keeps those with the prefix.
func readLog(ctx context.Context, c *kafka.Cluster, f auditFlags) (*logBook, error) {
	topic := kafka.Topics{Namespace: f.namespace}.Events()
	partitions, err := c.Partitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	book := newLogBook(partitions)
	if book.asked, err = readAsked(ctx, c, f.namespace, f.prefix); err != nil {
		return nil, err
	}
	var r *reading
	err = readTopic(ctx, c, topic, func(rec *events.Record) {
		if r == nil || r.partition != rec.Partition {
			r = book.read(rec.Partition, f.prefix)
		}
		r.take(rec)
	})
	book.apart()
	return book, err
}

func newLogBook(partitions int32) *logBook {
	return &logBook{stories: map[string]*story{}, reaches: reaches{}, Counts: logCounts{
		Partitions: partitions, Void: map[string]int{}, Rejected: map[string]int{},
	}}
}

// read begins the reading of a partition.
func (b *logBook) read(partition int32, prefix string) *reading {
	t := &tenure{Partition: partition}
	b.tenures = append(b.tenures, t)
	return &reading{book: b, tenure: t, partition: partition, partitions: b.Counts.Partitions, prefix: prefix}
}

// reading is the reading of one partition.
type reading struct {
	book       *logBook
	tenure     *tenure
	partition  int32
	partitions int32
	prefix     string
	rule       rule
	last       events.Instant
}

func (r *reading) take(rec *events.Record) {
	counts := &r.book.Counts
	counts.Records++
	f, err := events.DecodeFact(rec)
	if err != nil {
		r.fault("", fmt.Sprintf("offset %d cannot be read: %s", rec.Offset, err))
		return
	}
	wasBroken := r.rule.broken
	why := r.rule.judge(f)
	_, claim := f.Body.(*events.PartitionClaimed)
	var owned *epoch
	if !claim {
		owned = r.owned(f, rec)
	}
	if why != "" {
		counts.Void[why]++
		if r.rule.broken && !wasBroken {
			counts.Broken++
		}
		if owned != nil {
			owned.Void++
			r.book.reaches.skip(f, r.partition, rec.Offset)
		}
		return
	}
	if u, ok := f.Body.(*events.Unreadable); ok {
		r.fault(f.Task, fmt.Sprintf("the fact at offset %d cannot be read: %s", rec.Offset, u.Err))
		return
	}
	counts.Facts++
	if claim {
		counts.Epochs++
		r.claim(f, rec)
		return
	}
	owned.count(f, rec.Offset)
	r.book.reaches.accept(f, r.partition)
	if want := events.FactID(f, r.partition); rec.Header(events.HeaderID) != want {
		r.fault(f.Task, fmt.Sprintf("the fact at offset %d has the ce_id %q instead of %q", rec.Offset, rec.Header(events.HeaderID), want))
	}
	if f.Time < r.last {
		r.fault(f.Task, fmt.Sprintf("the time of the fact at offset %d lies before that of an earlier one", rec.Offset))
	}
	r.last = f.Time
	r.tell(f, rec.Offset)
}

// tell hands the fact to the story of its task.
func (r *reading) tell(f *events.Fact, offset int64) {
	if b, ok := f.Body.(*events.InputRejected); ok {
		r.book.Counts.Rejected[b.Reason]++
		return // it is about an input, and not about the task that stands under that ID
	}
	if f.Task == "" || !strings.HasPrefix(f.Task, r.prefix) {
		return
	}
	s := r.book.stories[f.Task]
	if s == nil {
		s = newStory(f.Task, r.partition)
		r.book.stories[f.Task] = s
	}
	if home := events.Home(f.Task, r.partitions); home != r.partition {
		s.fault("has a fact at offset %d of partition %d; its home is %d", offset, r.partition, home)
	}
	s.beat(f, r.book.asked[f.Cause])
	s.fold(f, &r.book.Counts)
}

func (r *reading) fault(task, what string) {
	r.book.faults = append(r.book.faults, disagreement{Task: task, What: fmt.Sprintf("partition %d: %s", r.partition, what)})
}
