package verify

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// deadHeaders are the headers that a dead letter has after those of its input.
const deadHeaders = 7

const deadPrefix = "__dlq.errors."

// A dead letter of an input above maxDead holds at most this much of its value (events/FORMAT.md, "Dead letters").
const (
	maxDead    = 7 << 20
	cutToBytes = 64 << 10
)

// inputPrint is the fingerprint of an input that is compared later. known is false if the input could not be read.
type inputPrint struct {
	sum   digest
	known bool
	// cut is the fingerprint with a shortened value, of an input that is too large for a dead letter.
	cut   digest
	large bool
}

// matches says whether the dead letter holds the input, or as much of it as its topic takes.
func (p inputPrint) matches(l *deadLetter) bool {
	return p.sum == l.sum || l.ofRange && p.sum == l.rangeSum || l.alone() || l.cut && p.large && l.cutSum == p.cut
}

// alone says whether the dead letter holds only the coordinates of its input. The owner that sends such a letter may be
// succeeded by one that can send the whole input.
func (l *deadLetter) alone() bool { return l.cut && l.cutSum == printBytes(&events.Record{}, nil) }

func printInput(r *events.Record) inputPrint {
	if r == nil {
		return inputPrint{}
	}
	p := inputPrint{sum: printBytes(r, r.Headers), known: true}
	if r.Size()+64*(len(r.Headers)+deadHeaders) > maxDead {
		short := *r
		short.Value = r.Value[:min(len(r.Value), cutToBytes)]
		p.large, p.cut = true, printBytes(&short, r.Headers)
	}
	return p
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

// deadLetter is a dead letter as it was found.
type deadLetter struct {
	sum    digest
	place  Place
	topic  string
	number string
	offset string
	reason string
	old    bool
	seen   bool
	// cut says that it holds only a part of its input; cutSum is then its fingerprint without the header that says so.
	cut    bool
	cutSum digest
	// ofRange says that it is of a batch that nobody read; rangeSum is then its fingerprint without the header that says up to which offset.
	ofRange  bool
	rangeSum digest
}

// deadWanted is a dead letter that must exist once its fact is below the watermark.
type deadWanted struct {
	finding Finding
	at      events.Position
}

// deadLetters are the dead letters of one partition of one topic.
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
			p.book.gone(CheckInputs, "%s/%d: the dead letters before offset %d are gone, so none counts as missing", topic, p.number, b.Start)
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
		p.wrong(CheckInputs, "dead_unreadable", at, "the dead letter lacks the last headers, which say where it came from")
		return
	}
	l := &deadLetter{
		sum: printBytes(r, r.Headers[:own]), place: at, old: old,
		topic: r.Header(deadPrefix + "topic"), number: r.Header(deadPrefix + "partition"), offset: r.Header(deadPrefix + "offset"), reason: r.Header(deadPrefix + "reason"),
	}
	if own > 0 && r.Headers[own-1].Key == events.HeaderCut {
		l.cut, l.cutSum = true, printBytes(r, r.Headers[:own-1])
	}
	if own > 0 && r.Headers[own-1].Key == events.HeaderLast {
		l.ofRange, l.rangeSum = true, printBytes(r, r.Headers[:own-1])
	}
	name := r.Header(deadPrefix + "fact")
	if was := d.found[name]; was != nil {
		p.count.DeadLetters.Repeats++
		if was.sum != l.sum && !was.alone() && !l.alone() || was.offset != l.offset || was.number != l.number || was.topic != l.topic || was.reason != l.reason {
			p.wrong(CheckInputs, "dead_differs", at, "this dead letter and the one at offset %d are both for the fact %s, but differ", was.place.Offset, name)
		}
		return
	}
	d.found[name] = l
}

// rejected handles the fact that an input is unusable: its dead letter must exist.
func (p *partition) rejected(f *events.Fact, b *events.InputRejected, at Place, input *events.Record) {
	p.count.Inputs["rejected"]++
	rejectedFor(p, f, b, at, input)
	cause, print := f.Cause, printInput(input)
	if b.Held != "" {
		cause = b.HeldAt
		held, ok := p.held[f.Task][b.Held]
		if !ok {
			p.book.add(Finding{Check: CheckInputs, Kind: "no_held", Place: at, Task: f.Task, What: fmt.Sprintf("the request %q expires, but it was not held", b.Held)})
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
		wrong("cause", "the rejection names %q, which is not an input", e.cause)
		return
	}
	d := p.dead[in]
	l := d.found[factID(p.number, f)]
	if l == nil {
		d.wanted = append(d.wanted, deadWanted{Finding{Check: CheckInputs, Kind: "no_dead_letter", Place: e.at, Task: f.Task,
			What: fmt.Sprintf("the input %s is rejected, but %s/%d holds no dead letter for it", e.cause, d.topic, p.number)}, f.Position()})
		return
	}
	l.seen = true
	topic := p.topics.Submissions
	if in == events.Reports {
		topic = p.topics.Reports
	}
	if l.topic != topic || l.number != strconv.Itoa(int(number)) || l.offset != strconv.FormatInt(offset, 10) || l.reason != e.reason {
		wrong("dead_differs", "the input %s is rejected (%s), but its dead letter %s says %s/%s@%s (%s)", e.cause, e.reason, l.place, l.topic, l.number, l.offset, l.reason)
	}
	if e.print.known && !e.print.matches(l) {
		wrong("dead_differs", "the dead letter %s has other bytes or headers than the rejected input %s", l.place, e.cause)
	}
}

// restDead reports the dead letters that no fact asked for, and those that are missing.
func (p *partition) restDead(in events.Input) {
	d := p.dead[in]
	for name, l := range d.found {
		if _, at, err := parseFactID(name); err == nil && !l.seen && p.beforeCut(p.number, at) {
			p.book.gone(CheckEffects, "%s/%d: the dead letters of facts before the log was cut are not compared with them", d.topic, p.number)
			continue
		}
		if !l.seen && l.old {
			p.wrong(CheckEffects, "phantom_dead_letter", l.place, "the dead letter names the fact %s, which is not an accepted rejection (INV8)", name)
		}
	}
	for _, w := range d.wanted {
		switch {
		case !p.settled.covers(w.at, "dlq."+string(in)):
			p.count.DeadLetters.NotYet++
			if p.cfg.AtRest {
				p.book.add(w.finding)
			}
		case !d.trimmed:
			p.book.add(w.finding)
		}
	}
}
