package verify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// forwardKey is an input that was sent home: its topic, and where it was found.
type forwardKey struct {
	in   events.Input
	from string
}

// sent is an InputForwarded.
type sent struct {
	to     int32
	print  inputPrint
	place  Place
	fact   events.Position
	home   int32
	found  bool
	failed bool
}

// copied is a record that is marked as sent home.
type copied struct {
	sum   digest
	place Place
	old   bool
	again bool // it was a dead letter, and somebody submitted it again
	more  []copied
}

// forwards compares the forwarded inputs with the copies that arrived. They are in different partitions, so both are
// kept to the end.
type forwards struct {
	sent   map[forwardKey]*sent
	copies map[forwardKey]*copied
}

func newForwards() forwards {
	return forwards{sent: map[forwardKey]*sent{}, copies: map[forwardKey]*copied{}}
}

// plain leaves out the marks of a copy.
func plain(headers []events.Header) []events.Header {
	var list []events.Header
	for _, h := range headers {
		if h.Key != events.HeaderForwardedFrom && h.Key != events.HeaderForwardedAt {
			list = append(list, h)
		}
	}
	return list
}

func (p *partition) forwarded(f *events.Fact, b *events.InputForwarded, at Place, input *events.Record) {
	p.count.Inputs["forwarded"]++
	in, number, offset, ok := f.Cause.Input()
	if !ok {
		p.wrong(CheckInputs, "cause", at, "the fact forwards %q, which is not an input", f.Cause)
		return
	}
	if b.To == p.number || b.To < 0 || b.To >= p.check.number {
		p.wrong(CheckInputs, "forward", at, "the input %s is sent home to partition %d, which is not another partition of the namespace", f.Cause, b.To)
	}
	s := &sent{to: b.To, place: at, fact: f.Position(), home: p.number}
	if input != nil {
		s.print = inputPrint{sum: printBytes(input, plain(input.Headers)), known: true}
		if in == events.Submissions {
			if sub, _, err := readSubmission(input); err == nil && events.Home(sub.ID, p.check.number) != b.To {
				p.book.add(Finding{Check: CheckInputs, Kind: "forward", Place: at, Task: sub.ID, What: fmt.Sprintf("the input %s is sent home to partition %d, but its home is %d", f.Cause, b.To, events.Home(sub.ID, p.check.number))})
			}
		}
	}
	p.forwards.sent[forwardKey{in, strconv.Itoa(int(number)) + "/" + strconv.FormatInt(offset, 10)}] = s
}

// effectFailed handles the fact that the broker refused an effect for good.
func (p *partition) effectFailed(f *events.Fact, b *events.EffectFailed, at Place) {
	switch b.Kind {
	case events.EffectWork:
		p.excuse(b.Of)
		if f.Task != "" && (b.Failed != nil || b.CompensationFailed != nil) {
			p.tell(f, at)
		}
	case events.EffectStart:
		if f.Task != "" && b.Failed != nil {
			p.tell(f, at)
		}
		if e := b.ScheduleEnded; e != nil {
			timetabled(p, &events.Fact{Body: e}, at)
		}
	case events.EffectForward:
		in, number, offset, ok := b.Input.Input()
		s := p.forwards.sent[forwardKey{in, strconv.Itoa(int(number)) + "/" + strconv.FormatInt(offset, 10)}]
		if s == nil && p.beforeCut(p.number, b.Of) {
			p.expectDead(f, expectedDead{cause: b.Input, reason: events.RejectMisplaced, at: at})
			return
		}
		if !ok || s == nil {
			p.wrong(CheckInputs, "forward", at, "the broker refused the forward of %s, which was never sent", b.Input)
			return
		}
		s.failed = true
		p.expectDead(f, expectedDead{cause: b.Input, reason: events.RejectMisplaced, at: at})
	}
}

// copy notes a record that is marked as sent home.
func (w forwards) copy(c *check, key forwardKey, r *events.Record) {
	n := copied{sum: printBytes(r, plain(r.Headers)), place: Place{r.Topic, r.Partition, r.Offset},
		old: r.Offset < c.early[r.Topic][r.Partition].End, again: r.Header(deadPrefix+"fact") != ""}
	if was := w.copies[key]; was != nil {
		was.more = append(was.more, n)
		return
	}
	w.copies[key] = &n
}

// compare is called when all partitions have been read.
func (w forwards) compare(ctx context.Context, c *check) error {
	for key, first := range w.copies {
		for i, n := range append([]copied{*first}, first.more...) {
			c.count.Forwards.Records++
			if i > 0 {
				c.count.Forwards.Repeats++
			}
			if err := w.compareCopy(ctx, c, key, n); err != nil {
				return err
			}
		}
	}
	for key, s := range w.sent {
		target := map[events.Input]string{events.Submissions: c.topics.Submissions, events.Reports: c.topics.Reports}[key.in]
		switch {
		case s.found || s.failed || c.partial():
		case !c.settled[s.home].covers(s.fact, string(key.in)+"/"+strconv.Itoa(int(s.to))):
			c.count.Forwards.NotYet++
		case s.to >= 0 && s.to < c.number && c.bounds[target][s.to].Start > 0:
			c.book.gone(CheckInputs, "%s/%d is trimmed: inputs that were sent home and are not there count as arrived", target, s.to)
		default:
			c.book.add(Finding{Check: CheckInputs, Kind: "forward_missing", Place: s.place,
				What: fmt.Sprintf("the input %s of %s was sent home to partition %d, but never arrived there", key.from, key.in, s.to)})
		}
	}
	return nil
}

func (w forwards) compareCopy(ctx context.Context, c *check, key forwardKey, n copied) error {
	s := w.sent[key]
	f := Finding{Check: CheckEffects, Kind: "forward_differs", Place: n.place}
	switch {
	case s == nil && (n.again || !n.old || c.partial() || c.cutBefore(key)):
		return nil
	case s == nil:
		return w.strange(ctx, c, key, n)
	case s.to != n.place.Partition:
		f.What = fmt.Sprintf("the record was sent home from %s to partition %d, but is here", key.from, s.to)
	case s.print.known && s.print.sum != n.sum:
		f.What = fmt.Sprintf("the record was sent home from %s, but has other bytes or headers than the input there", key.from)
	default:
		s.found = true
		return nil
	}
	c.book.add(f)
	return nil
}

// strange reports a copy that no fact sent. An owner only copies records of another partition; any other mark comes from a
// producer, which may write anything.
func (w forwards) strange(ctx context.Context, c *check, key forwardKey, n copied) error {
	f := Finding{Check: CheckEffects, Kind: "phantom_forward", Place: n.place,
		What: fmt.Sprintf("the record is a copy of %s of %s that was sent home, but no accepted fact says so (INV8)", key.from, key.in)}
	number, at, _ := strings.Cut(key.from, "/")
	p, err1 := strconv.ParseInt(number, 10, 32)
	offset, err2 := strconv.ParseInt(at, 10, 64)
	same := false
	if b := c.bounds[n.place.Topic]; err1 == nil && err2 == nil && p >= 0 && p < int64(len(b)) && int32(p) != n.place.Partition && offset >= b[p].Start && offset < b[p].End {
		span := Span{Topic: n.place.Topic, Partition: int32(p), From: offset, To: offset + 1, Committed: true}
		err := c.cfg.Log.Read(ctx, span, func(r events.Record) error {
			same = r.Offset == offset && printBytes(&r, plain(r.Headers)) == n.sum
			return errFound
		})
		if err != nil && !errors.Is(err, errFound) {
			return err
		}
	}
	if same {
		c.book.add(f)
		return nil
	}
	f.Kind, f.What = "marked", fmt.Sprintf("its producer marked the record as sent home from %s, but no owner sent it", key.from)
	c.book.warn(f)
	return nil
}

// cutBefore says whether an input was judged before the log of its partition begins.
func (c *check) cutBefore(key forwardKey) bool {
	number, at, _ := strings.Cut(key.from, "/")
	p, err1 := strconv.ParseInt(number, 10, 32)
	offset, err2 := strconv.ParseInt(at, 10, 64)
	x := c.cuts[int32(p)]
	return err1 == nil && err2 == nil && x != nil && offset < x.judged[key.in]
}
