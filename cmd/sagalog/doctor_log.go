package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
)

const (
	checkLog = "log"
	// tailRecords is how many records at the end of each partition are read, because a newer version's records are at the
	// end. Reading more would make a start with a thousand partitions slow, and the fold finds older problems.
	tailRecords = 100
	// tailWait bounds the reading of all partitions.
	tailWait = 5 * time.Second
	// clockApart is the largest difference between clocks that does no visible harm.
	clockApart = time.Minute
)

// log reads the end of each partition and finds facts that this version cannot read, and facts from the future. It finds nothing
// if there is no namespace or the brokers do not answer; other checks report that.
func (l *localCheck) log(ctx context.Context, cluster *kafka.Cluster) []doctor.Finding {
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
	var begins []doctor.Finding
	starts, err := cluster.StartOffsets(ctx, of)
	if err != nil {
		return nil
	}
	ends, err := cluster.EndOffsets(ctx, of)
	if err != nil {
		return nil
	}
	if !l.starting {
		begins = beginnings(ctx, cluster, begun{topic, starts[topic], ends[topic]})
	}
	t := tail{topic: topic, passed: map[events.Input]map[int32]events.Passed{}}
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
	found := append(begins, t.findings(l.now(), l.made)...)
	if !l.starting { // a node starts anyway, because its other partitions can work
		found = append(found, t.lost(ctx, cluster, l.namespace)...)
	}
	return found
}

// unreadable is a fact that would stop its partition.
type unreadable struct {
	err error
	// newer says that a newer version wrote it.
	newer bool
}

// tail is the result of reading the ends of the partitions.
type tail struct {
	topic     string
	partition int32
	looked    int32
	// epoch is the current epoch of the partition, as far as its end shows; claimed says that its claim was read.
	epoch   events.Epoch
	claimed bool

	// passed holds how far the inputs were judged, as far as the end of each partition shows; nil if it is not needed.
	passed map[events.Input]map[int32]events.Passed

	unreadable []unreadable
	newest     events.Instant
	newestAt   string
}

// read judges a record by the rule of FORMAT.md, as far as possible without the records before it. A void record does
// no harm, whatever it contains.
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
	t.pass(f)
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

func (t *tail) findings(now time.Time, partitions int32) (list []doctor.Finding) {
	for i, u := range t.unreadable {
		f := doctor.Finding{Check: checkLog, Status: doctor.StatusFail, What: "the log holds a fact that this version cannot read: " + u.err.Error(),
			Remedy: "another program has written to " + t.topic + ": let only owners write there, and restore it from a copy"}
		if u.newer {
			f.Remedy = "run the newer version of sagalog that wrote it, on every node"
		}
		if list = append(list, f); i == 4 {
			break // nobody reads more of a kind
		}
	}
	if ahead := t.newest.Time().Sub(now); t.newest > 0 && ahead > clockApart {
		list = append(list, doctor.Finding{Check: checkClock, Status: doctor.StatusWarn,
			What: fmt.Sprintf("two clocks differ: that of the owner that wrote the fact %s read %s, and that of this machine, which runs the check, reads %s, at least %s earlier",
				t.newestAt, t.newest, now.UTC().Format(time.RFC3339), ahead.Round(time.Second)),
			Remedy: "compare both with a third clock (NTP), and set the one that is wrong; if it is that of a node, its timers and deadlines are wrong too"})
	}
	if len(list) == 0 {
		list = append(list, doctor.Finding{Check: checkLog, Status: doctor.StatusOK,
			What: fmt.Sprintf("the last %d records of %d of %d partitions can be read", tailRecords, t.looked, partitions)})
	}
	return list
}
