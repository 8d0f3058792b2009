package verify

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// deadHeaders are the headers that a dead letter has beyond those of its input, at the end.
const deadHeaders = 7

const deadPrefix = "__dlq.errors."

// inputPrint is what is remembered of an input whose record is asked for later. known is false where it could not be read.
type inputPrint struct {
	sum   digest
	known bool
}

func printInput(r *events.Record) inputPrint {
	if r == nil {
		return inputPrint{}
	}
	return inputPrint{sum: printBytes(r, r.Headers), known: true}
}

// printBytes hashes key, value and headers with their lengths.
func printBytes(r *events.Record, headers []events.Header) digest {
	h := sha256.New()
	part := func(b []byte) {
		fmt.Fprintf(h, "%d:", len(b))
		_, _ = h.Write(b)
	}
	part(r.Key)
	part(r.Value)
	for _, x := range headers {
		part([]byte(x.Key))
		part(x.Value)
	}
	return digest(h.Sum(nil)[:16])
}

// deadLetter is one as it was found.
type deadLetter struct {
	sum    digest
	place  Place
	topic  string
	number string
	offset string
	reason string
	old    bool
	seen   bool
}

// deadWanted is one that must be there once its fact is settled.
type deadWanted struct {
	finding Finding
	at      events.Position
}

// deadLetters are those of one partition of one topic.
type deadLetters struct {
	topic   string
	found   map[string]*deadLetter // by the ce_id of the fact
	wanted  []deadWanted
	trimmed bool
}

// readDead reads the dead letters of a partition, which only its owners write.
func (p *partition) readDead(ctx context.Context) error {
	for in, topic := range map[events.Input]string{events.Submissions: p.topics.DeadSubmissions, events.Reports: p.topics.DeadReports} {
		b, early := p.bounds[topic][p.number], p.early[topic][p.number].End
		d := &deadLetters{topic: topic, found: map[string]*deadLetter{}, trimmed: b.Start > 0}
		p.dead[in] = d
		if d.trimmed {
			p.book.cannot(CheckInputs, "%s/%d was trimmed to offset %d: whether dead letters were there cannot be told", topic, p.number, b.Start)
		}
		err := p.cfg.Log.Read(ctx, Span{Topic: topic, Partition: p.number, From: b.Start, To: b.End}, func(r events.Record) error {
			if !r.Control {
				p.deadLetter(d, &r, r.Offset < early)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *partition) deadLetter(d *deadLetters, r *events.Record, old bool) {
	p.count.DeadLetters.Records++
	own := len(r.Headers) - deadHeaders
	at := Place{d.topic, r.Partition, r.Offset}
	for i := max(own, 0); i < len(r.Headers); i++ {
		if !strings.HasPrefix(r.Headers[i].Key, deadPrefix) {
			own = -1
		}
	}
	if own < 0 {
		p.wrong(CheckInputs, "dead_unreadable", at, "the dead letter does not end in the headers that say where it came from")
		return
	}
	l := &deadLetter{
		sum: printBytes(r, r.Headers[:own]), place: at, old: old,
		topic: r.Header(deadPrefix + "topic"), number: r.Header(deadPrefix + "partition"), offset: r.Header(deadPrefix + "offset"), reason: r.Header(deadPrefix + "reason"),
	}
	name := r.Header(deadPrefix + "fact")
	if was := d.found[name]; was != nil {
		p.count.DeadLetters.Repeats++
		if was.sum != l.sum || was.offset != l.offset || was.number != l.number || was.topic != l.topic || was.reason != l.reason {
			p.wrong(CheckInputs, "dead_differs", at, "the dead letter and that at offset %d are both of the fact %s, and differ", was.place.Offset, name)
		}
		return
	}
	d.found[name] = l
}

// rejected takes the fact that an input is unusable: its dead letter must be there.
func (p *partition) rejected(f *events.Fact, b *events.InputRejected, at Place, input *events.Record) {
	p.count.Inputs["rejected"]++
	cause, print := f.Cause, printInput(input)
	if b.Held != "" {
		cause = b.HeldAt
		held, ok := p.held[f.Task][b.Held]
		if !ok {
			p.book.add(Finding{Check: CheckInputs, Kind: "no_held", Place: at, Task: f.Task, What: fmt.Sprintf("the request %q expires, and is not held", b.Held)})
		}
		print = held
		delete(p.held[f.Task], b.Held)
		if len(p.held[f.Task]) == 0 {
			delete(p.held, f.Task)
		}
	}
	p.expectDead(f, expectedDead{cause: cause, print: print, reason: b.Reason, at: at})
}

type expectedDead struct {
	cause  events.Cause
	print  inputPrint
	reason string
	at     Place
}

func (p *partition) expectDead(f *events.Fact, e expectedDead) {
	in, number, offset, ok := e.cause.Input()
	wrong := func(kind, format string, args ...any) {
		p.book.add(Finding{Check: CheckInputs, Kind: kind, Place: e.at, Task: f.Task, What: fmt.Sprintf(format, args...)})
	}
	if !ok {
		wrong("cause", "the input %q is rejected, which is none", e.cause)
		return
	}
	d := p.dead[in]
	l := d.found[factID(p.number, f)]
	if l == nil {
		d.wanted = append(d.wanted, deadWanted{Finding{Check: CheckInputs, Kind: "no_dead_letter", Place: e.at, Task: f.Task,
			What: fmt.Sprintf("the input %s is rejected, and %s/%d holds no dead letter of it", e.cause, d.topic, p.number)}, f.Position()})
		return
	}
	l.seen = true
	topic := p.topics.Submissions
	if in == events.Reports {
		topic = p.topics.Reports
	}
	if l.topic != topic || l.number != strconv.Itoa(int(number)) || l.offset != strconv.FormatInt(offset, 10) || l.reason != e.reason {
		wrong("dead_differs", "the input %s is rejected (%s), and its dead letter %s says %s/%s@%s (%s)", e.cause, e.reason, l.place, l.topic, l.number, l.offset, l.reason)
	}
	if e.print.known && e.print.sum != l.sum {
		wrong("dead_differs", "the dead letter %s has other bytes or headers than the rejected input %s", l.place, e.cause)
	}
}

// restDead looks at the dead letters that no fact asked for, and at those that are not there.
func (p *partition) restDead(in events.Input) {
	d := p.dead[in]
	for name, l := range d.found {
		if !l.seen && l.old {
			p.wrong(CheckEffects, "phantom_dead_letter", l.place, "the dead letter is the effect of %s, which is no accepted rejection (INV8)", name)
		}
	}
	for _, w := range d.wanted {
		switch {
		case !p.isSettled(w.at):
			p.count.DeadLetters.NotYet++
			if p.cfg.AtRest {
				p.book.add(w.finding)
			}
		case !d.trimmed:
			p.book.add(w.finding)
		}
	}
}
