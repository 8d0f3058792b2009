package supervisor

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// inputQueue is what was read of one input topic and not judged yet.
type inputQueue struct {
	items []inputItem
	// judged is the offset of the first input that was not judged; fetched, that of the first one not read.
	judged, fetched int64
	// last is the record that was judged last, if hasLast.
	last    events.Record
	hasLast bool
	// silent counts the inputs that were judged without a fact since the last one that made one.
	silent int
	// verify is the hash that the record before the resume point must have; "" when it is verified.
	verify string
}

type inputItem struct {
	record events.Record
	// delivery tells which reading brought it: definitions must have been asked for after it.
	delivery uint64
}

// resume returns the offset to read from: the resume point, or one before it where the last judged record can be
// compared with what the log knows of it.
func (q *inputQueue) resume(p events.Passed) int64 {
	q.judged, q.fetched = p.Next, p.Next
	if p.Hash == "" || p.Next == 0 {
		return p.Next
	}
	q.verify = p.Hash
	return p.Next - 1
}

// Input gives records of an input topic in order; next is the offset read up to, past transaction markers too.
func (o *Owner) Input(now events.Instant, gen uint64, in events.Input, records []events.Record, next int64) {
	if !o.current(gen) || o.in == nil {
		return
	}
	o.enter(now)
	q := o.in[in]
	o.defs.deliveries++
	for i := range records {
		r := &records[i]
		if q.verify != "" {
			if r.Offset < q.judged-1 {
				continue // the batch of the record to be verified may begin before it
			}
			if r.Offset != q.judged-1 || events.HashInput(r) != q.verify {
				o.stop(fmt.Errorf("%w: %s offset %d; if its topic was restored or trimmed by hand, see README \"When the log was lost\"", ErrInputLost, in, q.judged-1))
				return
			}
			q.verify = ""
			continue
		}
		if r.Offset < q.fetched {
			continue
		}
		q.items = append(q.items, inputItem{record: *r, delivery: o.defs.deliveries})
		q.fetched = r.Offset + 1
	}
	if q.verify != "" && next >= q.judged {
		o.stop(fmt.Errorf("%w: %s offset %d is not there; if its topic was restored or trimmed by hand, see README \"When the log was lost\"", ErrInputLost, in, q.judged-1))
		return
	}
	q.fetched = max(q.fetched, next)
	if len(q.items) == 0 {
		q.judged = max(q.judged, q.fetched)
	}
	o.position[in] = max(o.position[in], q.fetched)
	o.passHorizon()
	o.deciding = true
}

// InputLost says that the shell could not read an input where the log says that it must be.
func (o *Owner) InputLost(now events.Instant, gen uint64, in events.Input, err error) {
	if o.current(gen) {
		o.enter(now)
		o.stop(fmt.Errorf("%w: %s: %w; if its topic was restored or trimmed by hand, see README \"When the log was lost\"", ErrInputLost, in, err))
	}
}

// Backlog returns the inputs that were read and not judged, for the shell's flow control.
func (o *Owner) Backlog(in events.Input) int {
	if o.in == nil {
		return 0
	}
	return len(o.in[in].items)
}

// judgeInputs judges queued inputs in the order of their topic until so many quarters of the batch are full.
func (o *Owner) judgeInputs(b *batch, in events.Input, quarters int) bool {
	q := o.in[in]
	if q.verify != "" {
		return true
	}
	most := o.most(b, in)
	for len(q.items) > 0 && b.submissions < most && 4*len(b.facts) < quarters*o.cfg.BatchFacts && 4*b.bytes < quarters*o.cfg.BatchBytes {
		item := &q.items[0]
		if item.record.Control {
			o.passed(q, item)
			continue
		}
		before := len(b.facts)
		ok, err := o.judge(b, in, item)
		if err != nil {
			o.setAside(events.CauseInput(in, o.cfg.Partition, item.record.Offset), "", err)
			return false
		}
		if !ok { // definitions must be read first; nothing behind it may overtake (traces, h5)
			return true
		}
		o.passed(q, item)
		if len(b.facts) > before {
			q.silent = 0
			if in == events.Submissions {
				b.submissions++
			}
		} else {
			q.silent++
			o.stats.Passed++
		}
	}
	if q.silent >= o.cfg.PassEvery {
		return o.passInputs(b)
	}
	return true
}

// passed moves the judged position over an input.
func (o *Owner) passed(q *inputQueue, item *inputItem) {
	q.judged = item.record.Offset + 1
	q.last, q.hasLast = item.record, true
	q.items[0] = inputItem{}
	q.items = q.items[1:]
	if len(q.items) == 0 {
		q.items = nil
		q.judged = max(q.judged, q.fetched)
	}
	o.passHorizon()
}

// passInputs writes how far each topic was judged: what was judged, not its end (reading/traces.md, Bm4), and each
// topic by itself (Fm1).
func (o *Owner) passInputs(b *batch) bool {
	body := &events.InputsPassed{Inputs: map[events.Input]events.Passed{}}
	for in, q := range o.in {
		q.silent = 0
		if q.judged <= o.state.Partition.Inputs[in].Next {
			continue
		}
		p := events.Passed{Next: q.judged}
		if q.hasLast && q.last.Offset == q.judged-1 && !q.last.Control {
			p.Hash = events.HashInput(&q.last)
		}
		body.Inputs[in] = p
	}
	return o.mustEmit(b, &events.Fact{Body: body, Cause: o.lastCause()})
}

// lastCause is the cause of facts that follow from the state of the partition.
func (o *Owner) lastCause() events.Cause {
	p := o.state.Partition
	if p.NextSequence == 0 {
		return events.CauseFact(events.Position{Epoch: p.Epoch})
	}
	return events.CauseFact(events.Position{Epoch: p.Epoch, Sequence: p.NextSequence - 1})
}

// mustEmit emits a fact about the partition: its failure is a defect that no input causes.
func (o *Owner) mustEmit(b *batch, f *events.Fact) bool {
	if err := o.emit(b, f, nil); err != nil {
		o.stop(err)
		return false
	}
	return true
}

// unpassed says whether some topic was judged further than the fold knows.
func (o *Owner) unpassed() bool {
	for in, q := range o.in {
		if q.judged > o.state.Partition.Inputs[in].Next {
			return true
		}
	}
	return false
}

// judge decides about one input. It returns false when definitions must be read before.
func (o *Owner) judge(b *batch, in events.Input, item *inputItem) (bool, error) {
	cause := events.CauseInput(in, o.cfg.Partition, item.record.Offset)
	if p, bad := o.poison[cause]; bad {
		return true, o.detoxify(b, in, item, p)
	}
	o.judging = judging{cause: cause}
	if item.record.Value == nil && hasHeader(&item.record, HeaderUnpacked) {
		return true, o.reject(b, in, item, "", events.RejectTooLarge, "its batch unpacks to more than is read; the bytes are still at these coordinates")
	}
	if in == events.Reports {
		return true, o.judgeReport(b, item)
	}
	return o.judgeSubmission(b, item)
}

func hasHeader(r *events.Record, key string) bool {
	for _, h := range r.Headers {
		if h.Key == key {
			return true
		}
	}
	return false
}

// setAside ends the epoch after a panic or an impossible fact: the speculative state may be half changed. In the next
// epoch what caused it is rejected unseen, so poison never loops.
func (o *Owner) setAside(cause events.Cause, task string, err error) {
	if o.broken != nil { // a store that cannot be read says nothing against the input
		o.stop(o.broken)
		return
	}
	switch {
	case task != "":
		o.poisonTask[task] = err.Error()
	case cause == "":
		o.stop(err) // nothing to set aside: it would happen again in every epoch
		return
	default:
		o.poison[cause] = poison{task: o.judging.task, why: err.Error()}
	}
	o.endEpoch()
}

// poison is an input that made deciding panic, and the task that was being planned then.
type poison struct{ task, why string }

// detoxify judges an input that made deciding panic, unseen. A report parks its task: what it says is not lost, since
// the fact's cause names the record. Everything else becomes a dead letter.
func (o *Owner) detoxify(b *batch, in events.Input, item *inputItem, p poison) error {
	if in == events.Reports && p.task != "" {
		t, err := o.state.Task(p.task)
		if err != nil {
			return err
		}
		if t != nil && !t.State.Ended() && t.State != events.Parked {
			reason := clip(parkedInternal+p.why, maxDetail)
			return o.emit(b, o.inputFact(in, &item.record, t.ID, &events.TaskParked{Reason: reason}), nil)
		}
	}
	return o.reject(b, in, item, "", events.RejectInternal, p.why)
}

// reject judges an input unusable; its dead letter is the effect.
func (o *Owner) reject(b *batch, in events.Input, item *inputItem, task, reason, detail string) error {
	r := &item.record
	return o.emit(b, o.inputFact(in, r, task, &events.InputRejected{Reason: reason, Detail: clip(detail, maxDetail)}), r)
}

// maxDetail bounds the reason of a rejection in a fact; a schema can be violated in a thousand places.
const maxDetail = 4 << 10

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "..."
}

// inputFact is a fact that an input causes.
func (o *Owner) inputFact(in events.Input, r *events.Record, task string, body events.Body) *events.Fact {
	return &events.Fact{
		Task: task, Body: body, Cause: events.CauseInput(in, o.cfg.Partition, r.Offset), CauseHash: events.HashInput(r),
		CauseID: clip(r.Header(events.HeaderID), events.MaxTaskID),
	}
}

// misplaced sends an input of another partition home, once. It returns true when it did.
func (o *Owner) misplaced(b *batch, in events.Input, item *inputItem, id string) (bool, error) {
	home := events.Home(id, o.cfg.Partitions)
	if home == o.cfg.Partition {
		return false, o.tooOld(item)
	}
	r := &item.record
	if r.Header(events.HeaderForwardedFrom) != "" {
		return true, o.reject(b, in, item, "", events.RejectMisplaced, fmt.Sprintf("forwarded from %s and still not in its home partition %d", r.Header(events.HeaderForwardedFrom), home))
	}
	if o.cfg.Off.off(RuleForward) { // forwarded from memory: what the rule forbids
		f := o.inputFact(in, r, "", &events.InputForwarded{To: home})
		f.Time = o.now
		o.do(Send{Generation: o.gen, Kind: events.EffectForward, Topic: string(in), Record: forward(f, r, home)})
		return true, nil
	}
	return true, o.emit(b, o.inputFact(in, r, "", &events.InputForwarded{To: home}), r)
}

// errTooOld marks a forwarded input that is older than the horizon of duplicates: what it repeats may be forgotten.
var errTooOld = fmt.Errorf("forwarded longer ago than task IDs are remembered")

func (o *Owner) tooOld(item *inputItem) error {
	at := item.record.Header(events.HeaderForwardedAt)
	if at == "" {
		return nil
	}
	// By the clock, and not by the time of this log, which may be ahead of that of the other partition.
	if i, err := events.ParseInstant(at); err != nil || o.read.Sub(i) > o.cfg.Settings.RememberFor.Std() {
		return errTooOld
	}
	return nil
}

// HeaderUnpacked marks a record that stands for one whose batch unpacks to more than a reader takes: it has the
// coordinates and no bytes.
const HeaderUnpacked = "sagalog-unpacked-too-large"
