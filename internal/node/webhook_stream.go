package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/supervisor"
)

// maxOutstanding bounds the messages of a partition that were read and are neither delivered nor given up. At the bound the partition is not
// read further. This many always fit into the metadata of a commit.
const maxOutstanding = 256

// webhookStream is one partition of events or alerts whose messages are delivered. It holds positions only.
type webhookStream struct {
	place
	// added is the number of the reading, 0 while the partition is not read.
	added uint64
	// next is the offset to read next: all before it was judged.
	next int64
	// log judges facts. The records of alerts are not judged.
	log authority
	// outstanding are the messages to deliver, in the order of the log.
	outstanding []*outstanding
	// due says that the position changed since the last commit.
	due bool
}

// outstanding is a message that is not delivered.
type outstanding struct {
	offset int64
	// since is when this node read it first, and again when to send it next.
	since, again time.Time
	failures     int
	sending      bool
}

// take judges records up to the bound, and returns false when it is reached.
func (s *webhookStream) take(records []events.Record, wanted func(*events.Record, *authority) (bool, error), now time.Time) (bool, error) {
	for i := range records {
		r := &records[i]
		if r.Offset < s.next || r.Control {
			continue
		}
		if s.full() {
			return false, nil
		}
		yes, err := wanted(r, &s.log)
		if err != nil {
			return false, fmt.Errorf("%s/%d at %d: %w", s.topic, s.partition, r.Offset, err)
		}
		if yes {
			s.outstanding = append(s.outstanding, &outstanding{offset: r.Offset, since: now, again: now})
		}
		s.next, s.due = r.Offset+1, true
	}
	return true, nil
}

func (s *webhookStream) full() bool { return len(s.outstanding) >= maxOutstanding }

// done forgets a message.
func (s *webhookStream) done(m *outstanding) {
	s.outstanding = slices.DeleteFunc(s.outstanding, func(x *outstanding) bool { return x == m })
	s.due = true
}

// ready returns the first message that is due, or nil.
func (s *webhookStream) ready(now time.Time) *outstanding {
	for _, m := range s.outstanding {
		if !m.sending && !now.Before(m.again) {
			return m
		}
	}
	return nil
}

// positionFormat begins the metadata of a commit, such as "sagalog-webhook-1 3-9f0c 17 0 2 2s,1". After it come the ordinal and the ID of the epoch,
// the next sequence, whether the epoch is broken, the barrier, and the distances of the outstanding messages before the position, in base 36.
const positionFormat = "sagalog-webhook-1"

// position is what a commit holds. Its Next is the position of reading, not the first outstanding message, because the rest of the metadata says
// who may write at that position.
func (s *webhookStream) position() kafka.Stored {
	b := []byte(positionFormat + " " + s.log.String() + " ")
	for i, m := range s.outstanding {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, s.next-m.offset, 36)
	}
	return kafka.Stored{Next: s.next, Metadata: string(b)}
}

var errForeignPosition = errors.New("the metadata of the commit is not the webhook's")

// resume sets the position from a commit.
func (s *webhookStream) resume(at kafka.Stored, now time.Time) error {
	if at.Next == 0 { // at the beginning nothing need be known
		return nil
	}
	words := strings.Split(at.Metadata, " ")
	if len(words) != 6 || words[0] != positionFormat {
		return errForeignPosition
	}
	var err error
	if s.log, err = parseAuthority(words[1:5]); err != nil {
		return err
	}
	s.next = at.Next
	for far := range strings.SplitSeq(words[5], ",") {
		if far == "" {
			continue
		}
		n, err := strconv.ParseInt(far, 36, 64)
		if err != nil || n < 1 || n > at.Next || s.full() {
			return errForeignPosition
		}
		s.outstanding = append(s.outstanding, &outstanding{offset: at.Next - n, since: now, again: now})
	}
	return nil
}

// authority follows who may write to a partition of events: the rule about void records of events/FORMAT.md, for a reader that does not fold
// the state.
type authority struct {
	epoch  events.Epoch
	next   uint64
	broken bool
	reader int
}

// authorityOf returns the authority after a folded state, for the record at its Next.
func authorityOf(p *events.PartitionState) authority {
	return authority{epoch: p.Epoch, next: p.NextSequence, broken: p.Broken, reader: p.Reader}
}

// String is what parseAuthority reads.
func (a *authority) String() string {
	epoch, broken := "-", "0"
	if a.epoch.N > 0 {
		epoch = a.epoch.String()
	}
	if a.broken {
		broken = "1"
	}
	return epoch + " " + strconv.FormatUint(a.next, 10) + " " + broken + " " + strconv.Itoa(a.reader)
}

func parseAuthority(words []string) (a authority, err error) {
	if words[0] != "-" {
		if a.epoch, err = events.ParseEpoch(words[0]); err != nil {
			return a, errForeignPosition
		}
	}
	next, errNext := strconv.ParseUint(words[1], 10, 64)
	reader, errReader := strconv.Atoi(words[3])
	if errNext != nil || errReader != nil || words[2] != "0" && words[2] != "1" {
		return a, errForeignPosition
	}
	a.next, a.broken, a.reader = next, words[2] == "1", reader
	return a, nil
}

// fact judges a record. It returns the fact if it is accepted and of a kind that decode wants, and nil otherwise. Of other kinds it reads only
// the headers.
func (a *authority) fact(r *events.Record, decode func(events.Name) bool) (*events.Fact, error) {
	kind := events.Name(strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix))
	if kind == events.NamePartitionClaimed {
		f, err := events.DecodeFact(r)
		if err != nil {
			return nil, err
		}
		a.claimed(f.Body.(*events.PartitionClaimed))
		return nil, nil
	}
	if kind == events.NameNamespaceCreated {
		return nil, nil
	}
	if kind == events.NameCarryBegun && r.Offset == 0 && a.epoch.N == 0 { // of a namespace that was copied
		return nil, a.copied(r)
	}
	at, err := events.PositionOf(r)
	if err != nil {
		return nil, err
	}
	epoch, sequence := at.Epoch, at.Sequence
	if a.epoch.N == 0 || epoch != a.epoch || a.broken || sequence != a.next {
		a.broken = a.broken || a.epoch.N > 0 && epoch == a.epoch && sequence > a.next
		return nil, nil
	}
	a.next++
	if kind != events.NameVersionBarrier && !decode(kind) {
		return nil, nil
	}
	f, err := events.DecodeFact(r)
	if err != nil {
		return nil, err
	}
	switch b := f.Body.(type) {
	case *events.Unreadable:
		return nil, b.Err
	case *events.VersionBarrier:
		a.reader = max(a.reader, b.Reader)
		return nil, nil
	}
	return f, nil
}

// copied takes the first record of a log that begins with a copy.
func (a *authority) copied(r *events.Record) error {
	f, err := events.DecodeFact(r)
	if err != nil {
		return err
	}
	var p events.PartitionState
	if b, ok := f.Body.(*events.CarryBegun); ok && b.Copied {
		if err := json.Unmarshal(b.State, &p); err != nil {
			return err
		}
		*a = authorityOf(&p)
		a.next++
	}
	return nil
}

func (a *authority) claimed(c *events.PartitionClaimed) {
	if c.Prev != a.epoch.ID || c.ID == "" || c.ID == a.epoch.ID || c.Reader < a.reader {
		return
	}
	*a = authority{epoch: events.Epoch{N: a.epoch.N + 1, ID: c.ID}, reader: a.reader}
}

// webhookKinds are what a webhook can deliver, with the types of the messages.
var webhookKinds = map[string]string{
	supervisor.AlertParked: "sagalog.task.parked", supervisor.AlertUndone: "sagalog.task.undone", endTerminated: "sagalog.task.terminated", endProcessed: "sagalog.task.processed",
	supervisor.AlertDeadline: "sagalog.task.deadline_passed", supervisor.AlertSoftLimit: "sagalog.task.soft_limit_passed",
	supervisor.AlertPermanent: "sagalog.step.permanent_failure", supervisor.AlertEffect: "sagalog.effect.failed", supervisor.AlertMissing: "sagalog.agent.missing",
	supervisor.AlertBlocked: "sagalog.concurrency.blocked", supervisor.AlertScheduleMissed: "sagalog.schedule.missed",
	supervisor.AlertScheduleFailed: "sagalog.schedule.failed", supervisor.AlertScheduleBlocked: "sagalog.schedule.blocked",
}

// The kinds of messages that are no alerts.
const (
	endProcessed  = "processed"
	endTerminated = "terminated"
)

// WebhookKinds returns the kinds of messages, sorted, and those that are delivered unless others are chosen.
func WebhookKinds() (all, usual []string) {
	for kind := range webhookKinds {
		all = append(all, kind)
		if kind != endProcessed { // there are as many of these as there are tasks
			usual = append(usual, kind)
		}
	}
	slices.Sort(all)
	slices.Sort(usual)
	return all, usual
}
