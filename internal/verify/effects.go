package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// notSent notes an attempt that timed out. Its request is no longer needed, so it may be missing if it was not acknowledged by
// then.
func (p *partition) notSent(at events.Position) {
	if !p.settled.coversWork(at) {
		p.excuse(at)
	}
}

// The bits of tenure.work. A digest never has the first bit set, which means that the request was found, and always has the
// second.
const (
	workSeen     = 1
	workExpected = 2
	workExcused  = 4
	workAny      = 8 // its content is not known
	workDigest   = ^uint32(workSeen | workExpected | workExcused | workAny)
)

func (p *partition) excuse(at events.Position) {
	if t, ok := p.owners.find(at); ok && *t.effect(at)&workExpected != 0 {
		*t.effect(at) |= workExcused
	}
}

// effect returns the digest of the work request of an accepted fact.
func (t *tenure) effect(at events.Position) *uint32 { return &t.work[at.Sequence-t.first] }

// expectAny notes that a start fact has a work request of which the content is not known.
func expectAny(p *partition, f *events.Fact) {
	if t, ok := p.owners.find(f.Position()); ok {
		*t.effect(f.Position()) |= workExpected | workAny
	}
}

// expectWork notes the work request that a start fact has as its effect.
func (p *partition) expectWork(f *events.Fact, s *story) {
	w := events.Work{Task: f.Task, Ticket: s.incarnation, Workflow: s.workflow, Home: p.number}
	switch b := f.Body.(type) {
	case *events.StepStarted:
		w.Step, w.Agent, w.Function, w.Operation, w.Attempt, w.CompleteBy, w.Input = b.Step, b.Agent, b.Function, events.Do, b.Attempt, b.CompleteBy, b.Input
		w.Heartbeat, w.CapBy, w.Progress, w.Run = b.Heartbeat, b.CapBy, b.Progress, b.Run
	case *events.CompensationStarted:
		w.Step, w.Agent, w.Function, w.Operation, w.Attempt, w.CompleteBy, w.Input, w.Output = b.Step, b.Agent, b.Function, events.Undo, b.Attempt, b.CompleteBy, b.Input, b.Output
		w.Run = b.Run
	default:
		return
	}
	w.Run = events.RunOf(w.Run)
	if w.IdempotencyKey = w.Key(p.id, w.Operation); w.Operation == events.Undo {
		w.Undoes = w.Key(p.id, events.Do)
	}
	if t, ok := p.owners.find(f.Position()); ok {
		entry := t.effect(f.Position())
		*entry = digestWork(&w, f.Time) | *entry&workExcused
	}
}

// digestWork leaves the complete-by time out, which changes when the time is corrected, and takes how long after the start it is. decided is
// the time of the start.
func digestWork(w *events.Work, decided events.Instant) uint32 {
	sum := crc32.NewIEEE()
	fmt.Fprintf(sum, "%s\x00%d\x00%s\x00%s\x00%s\x00%s\x00%d\x00%s\x00%s\x00%d\x00%d\x00%s\x00", w.Task, w.Run, w.Workflow, w.Step, w.Agent, w.Call().Verb(), w.Attempt, w.IdempotencyKey, w.Undoes, w.CompleteBy-decided, w.Home, w.Ticket)
	_, _ = sum.Write(w.Input)
	_, _ = sum.Write([]byte{0})
	_, _ = sum.Write(w.Output)
	if w.Heartbeat > 0 {
		fmt.Fprintf(sum, "\x00%s\x00%d\x00%s", w.Heartbeat, w.CapBy-decided, w.Progress)
	}
	return sum.Sum32()&workDigest | workExpected
}

// work reads the topics of all agents and compares them with the starts.
func (c *check) work(ctx context.Context) error {
	trimmed := false
	for agent := range c.agents {
		topic := c.topics.Work(agent)
		for number, b := range c.bounds[topic] {
			trimmed = trimmed || b.Start > 0
			if b.Start > 0 {
				c.book.gone(CheckEffects, "%s/%d: the records before offset %d are trimmed, and are not compared with their facts", topic, number, b.Start)
			}
			span := Span{Topic: topic, Partition: int32(number), From: b.Start, To: b.End}
			early := int64(0)
			if e := c.early[topic]; number < len(e) {
				early = e[number].End
			}
			err := c.cfg.Log.Read(ctx, span, func(r events.Record) error {
				if r.Offset%1000 == 0 {
					c.progress(topic, r.Partition, r.Offset, b.End)
				}
				switch {
				case r.Control:
				case r.Header(events.HeaderType) == events.TypeStop:
					c.stop(&r, r.Offset < early)
				default:
					c.workRequest(&r, r.Offset < early)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	for p, o := range c.owners {
		if err := c.missingWork(ctx, p, o, trimmed); err != nil {
			return err
		}
	}
	return nil
}

// workRequest looks for the start fact whose effect the request is. old says that the fact must be among those that were read.
func (c *check) workRequest(r *events.Record, old bool) {
	wrong := func(task, kind, format string, args ...any) {
		c.book.add(Finding{Check: CheckEffects, Kind: kind, Place: Place{r.Topic, r.Partition, r.Offset}, Task: task, What: fmt.Sprintf(format, args...)})
	}
	name := r.Header(events.HeaderID)
	home, pos, err := parseFactID(name)
	if err != nil {
		wrong("", "work_unreadable", "the work request names no fact: %v", err)
		return
	}
	o := c.owners[home]
	if o == nil {
		return // a partition that is not read
	}
	c.count.Work.Records++
	t, ok := o.find(pos)
	if !ok && c.beforeCut(home, pos) {
		c.book.gone(CheckEffects, "the facts of %s/%d before the log was cut are gone: the work requests that they have as effects are not compared with them", c.topics.Events, home)
		return
	}
	if !ok || *t.effect(pos) == 0 {
		if old {
			wrong(string(r.Key), "phantom_work", "the work request names the fact %s, which is not an accepted start of an attempt (INV8)", name)
		} else {
			c.count.Work.NotYet++
		}
		return
	}
	var w events.Work
	if err := json.Unmarshal(r.Value, &w); err != nil {
		wrong(string(r.Key), "work_unreadable", "the work request cannot be read: %v", err)
		return
	}
	// A newer owner may encode it differently, but its content is the same.
	entry := t.effect(pos)
	decided, _ := events.ParseInstant(r.Header(events.HeaderTime)) // one that cannot be read differs
	if *entry&workAny == 0 && digestWork(&w, decided)&workDigest != *entry&workDigest {
		wrong(w.Task, "work_differs", "the work request (%s of step %s, attempt %d) differs from the one that its fact %s at offset %d asks for", w.Operation, w.Step, w.Attempt, name, t.offset(pos.Sequence))
	}
	if *entry&workSeen != 0 {
		c.count.Work.Repeats++
	}
	*entry |= workSeen
}

// stop looks for the fact after which the stop was sent. None has to be there: a stop may be lost. But one that follows from nothing
// could end an attempt whose outcome is needed.
func (c *check) stop(r *events.Record, old bool) {
	wrong := func(kind, format string, args ...any) {
		c.book.add(Finding{Check: CheckEffects, Kind: kind, Place: Place{r.Topic, r.Partition, r.Offset}, Task: string(r.Key), What: fmt.Sprintf(format, args...)})
	}
	name, _, _ := strings.Cut(r.Header(events.HeaderID), "/stop/")
	home, pos, err := parseFactID(name)
	if err != nil {
		wrong("work_unreadable", "the stop names no fact: %v", err)
		return
	}
	o := c.owners[home]
	if o == nil {
		return // a partition that is not read
	}
	if _, ok := o.find(pos); !ok && old && !c.beforeCut(home, pos) {
		wrong("phantom_stop", "the stop names %s, which is not an accepted fact (INV8)", name)
	}
}

// parseFactID reads PARTITION/EPOCH/SEQUENCE.
func parseFactID(name string) (int32, events.Position, error) {
	number, rest, ok := strings.Cut(name, "/")
	n, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil {
		return 0, events.Position{}, fmt.Errorf("%q is not a fact", name)
	}
	pos, err := events.ParsePosition(rest)
	return int32(n), pos, err
}

var errFound = errors.New("found")

// missingWork finds the starts below the watermark that have no request.
func (c *check) missingWork(ctx context.Context, number int32, o *ownership, trimmed bool) error {
	settled := c.settled[number]
	shown := 0
	for _, t := range o.tenures {
		for seq, w := range t.work {
			pos := events.Position{Epoch: t.epoch, Sequence: t.first + uint64(seq)}
			switch {
			case w&workExpected == 0 || w&workSeen != 0:
			case w&workExcused != 0:
				c.count.Work.Unsent++
			case !settled.coversWork(pos):
				c.count.Work.NotYet++
				if c.cfg.AtRest {
					c.book.add(Finding{Check: CheckEffects, Kind: "unacknowledged", Place: Place{c.topics.Events, number, t.offset(pos.Sequence)}, What: "the work topic has no request for this fact, and nothing says that it was sent"})
				}
			case !trimmed:
				f := Finding{Check: CheckEffects, Kind: "work_missing", Place: Place{c.topics.Events, number, t.offset(pos.Sequence)},
					What: fmt.Sprintf("the work topic has no request for this fact, but the log says that all effects up to %s are acknowledged (INV8)", settled.watermark)}
				if shown++; shown <= c.book.show {
					if err := c.name(ctx, &f); err != nil {
						return err
					}
				}
				c.book.add(f)
			}
		}
	}
	return nil
}

// name reads the fact of a finding again, to name its task and step.
func (c *check) name(ctx context.Context, f *Finding) error {
	span := Span{Topic: f.Topic, Partition: f.Partition, From: f.Offset, To: f.Offset + 1}
	err := c.cfg.Log.Read(ctx, span, func(r events.Record) error {
		if fact, err := events.DecodeFact(&r); err == nil {
			f.Task = fact.Task
			switch b := fact.Body.(type) {
			case *events.StepStarted:
				f.Step = b.Step
			case *events.CompensationStarted:
				f.Step = b.Step
			}
		}
		return errFound
	})
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}
