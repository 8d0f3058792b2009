package verify

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// A log that was cut begins with a carry (docs/protocol.md, "The log is cut where a carry begins"). Everything but the tasks is known from its
// first facts on. The story of an older task begins with its rows: what the facts before them say is kept, and compared with them.

// cut says where the facts of a partition begin.
type cut struct {
	at     Place
	time   events.Instant
	epoch  events.Epoch
	since  events.Instant // when that epoch began
	judged map[events.Input]int64
}

// beginsCut takes the first fact of a log that was cut. It says whether the log can be judged from there on.
func beginsCut(p *partition, f *events.Fact, at Place) (ok bool) {
	b, ok := f.Body.(*events.CarryBegun)
	var st events.PartitionState
	if ok {
		ok = json.Unmarshal(b.State, &st) == nil
	}
	if !ok {
		p.lost = true
		for _, check := range []string{CheckInputs, CheckAttempts, CheckMovers, CheckUndo, CheckEffects} {
			p.book.cannot(check, "%s/%d begins at offset %d with %s: facts are lost, and without a carry there is nothing to begin with", at.Topic, p.number, at.Offset, f.Body.Name())
		}
		p.unread = true
		return false
	}
	if by := p.owners.current().owner; by != st.Owner || f.Time < st.Time {
		p.wrong(CheckOwnership, "writer", at, "node %q wrote the fact at %s, but by its state node %q owned the partition, which had a fact of %s", by, f.Time, st.Owner, st.Time)
	}
	c := &cut{at: at, time: f.Time, epoch: st.Epoch, since: st.Since, judged: map[events.Input]int64{}}
	p.cuts[p.number] = c
	p.owners.rule.barrier = st.Reader
	p.settled = settled{st.Watermark, st.Delayed}
	p.settings = settings{true, st.SettingsOffset, st.Settings.RememberFor.Std(), st.Settings.RemindAfter.Std(), st.Settings}
	p.time, p.jumpedAt, p.correcting, p.limitsOffset = st.Time, st.JumpedAt, st.Correcting, st.LimitsOffset
	for in, j := range p.inputs {
		j.judged, j.since, j.hash = st.Inputs[in].Next, at.Offset, st.Inputs[in].Hash
		c.judged[in] = j.judged
	}
	p.carry = &carry{begun: f.Position(), first: true, left: st.Tasks, unknown: map[string]*uncarried{}, gone: map[string]bool{}, held: map[events.Cause]*events.HeldRequest{}}
	p.forgotten = max(p.forgotten, f.Time)
	sayCut(p, c)
	return true
}

// sayCut says what is proved of a log that was cut.
func sayCut(p *partition, c *cut) {
	where := fmt.Sprintf("%s/%d begins at offset %d", p.topics.Events, p.number, c.at.Offset)
	p.book.gone(CheckFold, "%s with a carry, as of %s: the facts before it are gone (keep_log)", where, c.time)
	p.book.gone(CheckAttempts, "%s: of older tasks, what came before it is known from their carried rows alone", where)
	for _, in := range []events.Input{events.Submissions, events.Reports} {
		if j := p.inputs[in]; j.Start < j.judged {
			p.book.gone(CheckInputs, "%s/%d: the records before offset %d were judged by facts that are gone, and are not compared with them", j.topic, p.number, j.judged)
		}
	}
}

// skipJudged passes the inputs that facts judged which are gone. Of these it needs the requests that are held.
func skipJudged(p *partition, c *carry, at Place) error {
	for in, j := range p.inputs {
		err := j.upTo(j.judged, func(r *events.Record) {
			p.input(j, r)
			cause := events.CauseInput(in, p.number, r.Offset)
			if h := c.held[cause]; h != nil {
				delete(c.held, cause)
				if hash := events.HashInput(r); hash != h.CauseHash {
					p.wrong(CheckInputs, "input_changed", at, "the request %q is carried as that of the input %s with the hash %s, but the record there has %s", h.Request.ID, cause, h.CauseHash, hash)
				}
				p.held[h.Request.Task][h.Request.ID] = printInput(r)
			}
		})
		if err != nil {
			return err
		}
		if r := j.last; j.hash != "" && j.judged > j.Start && (r == nil || r.Offset != j.judged-1 || events.HashInput(r) != j.hash) {
			p.wrong(CheckInputs, "input_changed", p.cuts[p.number].at, "the carry says that the inputs of %s are judged up to offset %d, but the last of them is not the record there", j.topic, j.judged)
		}
	}
	return nil
}

// beforeCut says whether a fact lies before the beginning of a partition's log that was cut.
func (c *check) beforeCut(number int32, at events.Position) bool {
	o := c.owners[number]
	return o != nil && c.cuts[number] != nil && o.beforeCut(at)
}
