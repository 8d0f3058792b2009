package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

const (
	checkLog = "log"
	// tailRecords is how much of the end of each partition is read: what a newer version writes, it writes at the end.
	// More would make a start with a thousand partitions slow; what lies further back, the fold finds.
	tailRecords = 100
	// tailWait bounds the look at all partitions.
	tailWait = 5 * time.Second
	// clockApart is what clocks of machines may differ by, and everything still works as one expects.
	clockApart = time.Minute
)

// log reads the end of each partition: facts that this version cannot read, and facts of the future. It has nothing to
// say while there is no namespace, or where the brokers do not answer, of which other checks tell.
func (l *localCheck) log(ctx context.Context, cluster *kafka.Cluster) []kafka.Finding {
	if l.made == 0 || l.roles.agentOnly() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tailWait)
	defer cancel()
	topic := kafka.Topics{Namespace: l.namespace}.Events()
	of := kafka.Partitions{}
	for p := range l.made {
		of[topic] = append(of[topic], p)
	}
	starts, err := cluster.StartOffsets(ctx, of)
	if err != nil {
		return nil
	}
	ends, err := cluster.EndOffsets(ctx, of)
	if err != nil {
		return nil
	}
	t := tail{topic: topic}
	for p := range l.made {
		start, end := starts[topic][p], ends[topic][p]
		if start == end {
			t.looked++
			continue
		}
		t.partition, t.epoch, t.claimed = p, events.Epoch{}, false
		if err := cluster.ReadRange(ctx, topic, p, max(start, end-tailRecords), end, t.read); err != nil {
			break
		}
		t.looked++
	}
	return t.findings(l.now(), l.made)
}

// unreadable is a fact that would stop its partition.
type unreadable struct {
	err error
	// newer says that a newer version wrote it.
	newer bool
}

// tail is what the ends of the partitions hold.
type tail struct {
	topic     string
	partition int32
	looked    int32
	// epoch is the current one of the partition, as far as its end tells; claimed says that a claim of it was read.
	epoch   events.Epoch
	claimed bool

	unreadable []unreadable
	newest     events.Instant
	newestAt   string
}

// read judges a record by the rule of FORMAT.md, as far as it can be without what precedes: a record that is void stops
// nobody, whatever it holds.
func (t *tail) read(r events.Record) error {
	if r.Control {
		return nil
	}
	place := fmt.Sprintf("%s/%d at offset %d", t.topic, t.partition, r.Offset)
	f, err := events.DecodeFact(&r)
	if err != nil {
		t.unreadable = append(t.unreadable, unreadable{err: fmt.Errorf("%s: %w", place, err)})
		return nil
	}
	if c, ok := f.Body.(*events.PartitionClaimed); ok {
		if !t.claimed || c.Prev == t.epoch.ID {
			t.epoch, t.claimed = events.Epoch{N: t.epoch.N + 1, ID: c.ID}, true
		}
		return nil
	}
	if t.epoch.ID == "" {
		t.epoch = f.Epoch
	}
	if f.Epoch.ID != t.epoch.ID {
		return nil
	}
	switch b := f.Body.(type) {
	case *events.Unreadable:
		t.unreadable = append(t.unreadable, unreadable{fmt.Errorf("%s: %w", place, b.Err), errors.Is(b.Err, events.ErrUnknownFact)})
	case *events.VersionBarrier:
		if b.Reader > events.FormatVersion {
			t.unreadable = append(t.unreadable, unreadable{fmt.Errorf("%s: %w: it asks for format %d, this version reads %d", place, events.ErrReaderTooOld, b.Reader, events.FormatVersion), true})
		}
	}
	if f.Time > t.newest {
		t.newest, t.newestAt = f.Time, place
	}
	return nil
}

func (t *tail) findings(now time.Time, partitions int32) (list []kafka.Finding) {
	for i, u := range t.unreadable {
		f := kafka.Finding{Check: checkLog, Status: kafka.StatusFail, What: "the log holds a fact that this version cannot read: " + u.err.Error(),
			Remedy: "somebody else has written to " + t.topic + ": let only owners write there, and restore it from a copy"}
		if u.newer {
			f.Remedy = "run the newer version of sagalog that wrote it, on every node"
		}
		if list = append(list, f); i == 4 {
			break // nobody reads more of one kind
		}
	}
	if ahead := t.newest.Time().Sub(now); t.newest > 0 && ahead > clockApart {
		list = append(list, kafka.Finding{Check: checkClock, Status: kafka.StatusWarn,
			What: fmt.Sprintf("the fact %s is of %s, and the clock of this machine says %s: one of the clocks is off by %s or more",
				t.newestAt, t.newest, now.UTC().Format(time.RFC3339), ahead.Round(time.Second)),
			Remedy: "set the clocks of all nodes (NTP): timers and deadlines wait until this clock has caught up"})
	}
	if len(list) == 0 {
		list = append(list, kafka.Finding{Check: checkLog, Status: kafka.StatusOK,
			What: fmt.Sprintf("the last %d records of %d of %d partitions can be read", tailRecords, t.looked, partitions)})
	}
	return list
}
