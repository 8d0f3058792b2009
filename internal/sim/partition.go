package sim

import (
	"hash/fnv"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// partition is the log of one partition, and its judge: a reader that folds every record as it lands.
type partition struct {
	w   *World
	id  int32
	log topic

	state *events.State
	// sums is the state hash after each record.
	sums []events.Hash
	// facts are the accepted facts by ID; writer is the node that made the current claim.
	facts  map[string]*events.Fact
	writer *producer
	// at holds the offset of each accepted fact.
	at map[*events.Fact]int64
	// claims holds the offset of each claim that was ever current, by identifier.
	claims map[string]int64
	// epoch, sequence and broken say what the next fact must carry.
	epoch    events.Epoch
	sequence uint64
	broken   bool
	// closed says that the namespace was copied: no fact is accepted any more.
	closed bool
	// gone says that its log is lost.
	gone bool
	// old are the partitions of its namespace then.
	old []*partition
	// correctedIn is the epoch that began the latest correction of the time.
	correctedIn events.Epoch
	// startedAt is the latest start of each step.
	startedAt map[string]*events.Fact
	// undone describes the dos whose effects must all be gone, by their idempotency keys.
	undone map[string]string
	// done describes the dos whose effects must all be there, for each life of a task.
	done   map[string]map[string]string
	digest uint64

	// barrier is the latest barrier, and reader the level that the current claim names.
	barrier, reader int

	// loads are readers that begin at the latest carries.
	loads []*Load

	rules   Judge
	inputs  inputs
	effects effects
	answers answers
	sagas   sagas
	// schedules are the effects between the partition's schedules and tasks.
	schedules scheduleEffects
}

func newPartition(w *World, id int32) *partition {
	p := &partition{
		w: w, id: id, state: events.NewState(id, nil), facts: map[string]*events.Fact{}, claims: map[string]int64{},
		undone: map[string]string{}, done: map[string]map[string]string{}, startedAt: map[string]*events.Fact{}, at: map[*events.Fact]int64{},
	}
	p.inputs = inputs{w: w, p: p, facts: map[events.Cause]*events.Fact{}, content: map[string]map[string]bool{}, held: map[string]bool{}}
	p.answers = answers{p: p, tasks: map[string]*Answers{}, owed: map[string]string{}, landed: map[string]events.Record{}}
	p.schedules = scheduleEffects{p: p, of: map[string]string{}, owed: map[string]string{}, accepted: map[string]bool{}, born: map[string]int64{}, began: map[string]int64{}}
	p.effects = effects{w: w, p: p, arrived: map[string]bool{}, attempts: map[Attempt]span{}}
	p.sagas = sagas{w: w, p: p, log: &p.log, byTask: map[string]*saga{}, cancelled: map[string]bool{}}
	p.state.SetLax(w.lax())
	p.state.SetLevel(newerBuild)
	p.rules = Judge{&p.inputs, w.namedLimits, p.state, id, w.opt.Partitions, w.opt.Off, w.fail}
	return p
}

func (w *World) lax() events.Lax {
	return events.Lax{AnyClaim: w.opt.Off&supervisor.RuleClaimPrev != 0, AnySequence: w.opt.Off&supervisor.RuleSequence != 0}
}

// judge folds one landed record and checks it.
func (p *partition) judge(r *events.Record, by *producer) {
	w := p.w
	p.mix(r)
	f, err := events.DecodeFact(r)
	if err != nil {
		w.fail("partition %d offset %d cannot be decoded: %v", p.id, r.Offset, err)
		return
	}
	valid := p.valid(f)
	if _, claim := f.Body.(*events.PartitionClaimed); valid && p.closed && !claim { // see TestAnOwnerOfAClosedPartitionStops
		w.fail("%s is accepted in partition %d, which was closed because it was copied", f.Body.Name(), p.id)
		return
	}
	if valid {
		p.before(f, by)
		p.see(f, by)
	} else {
		p.seeVoid(f, by)
	}
	fate, err := p.state.Apply(f, r.Offset)
	if err != nil {
		w.fail("INV2: partition %d offset %d %s cannot be folded: %v", p.id, r.Offset, describe(r), err)
		return
	}
	if w.opt.Trace {
		w.note("log/%d %d %s %s", p.id, r.Offset, map[events.Fate]string{events.FateAccepted: "accepted", events.FateVoid: "VOID"}[fate], describe(r))
	}
	if valid != (fate == events.FateAccepted) {
		w.fail("INV11: partition %d offset %d: the fold and the rule of the log differ about %s", p.id, r.Offset, describe(r))
		return
	}
	p.numbered(f, valid)
	d, err := p.state.Flush(nil)
	if err != nil {
		w.fail("INV2: partition %d offset %d: %v", p.id, r.Offset, err)
		return
	}
	p.sums = append(p.sums, d.Sum)
	if sample(w, 32) && !p.state.Partition.Loading() {
		p.sumsUp(d.Sum)
	}
	follow(p, f, r.Offset, valid, d.Sum)
	if !valid {
		w.report.Void++
		return
	}
	w.report.Facts++
	w.report.Kinds[f.Body.Name()]++
	p.at[f] = r.Offset
	p.after(f, by)
}

// valid says whether the fold will accept the fact, by the rule that every reader of the log applies and the judge's
// own count.
func (p *partition) valid(f *events.Fact) bool {
	lax := p.w.lax()
	if copied(f) {
		return p.log.end() == 1
	}
	if c, ok := f.Body.(*events.PartitionClaimed); ok {
		return (c.Prev == p.epoch.ID || lax.AnyClaim) && c.ID != p.epoch.ID && c.Reader >= p.barrier
	}
	return p.epoch.N > 0 && f.Epoch == p.epoch && !p.broken && (f.Sequence == p.sequence || lax.AnySequence)
}

// numbered counts epochs and sequences.
func (p *partition) numbered(f *events.Fact, valid bool) {
	c, claim := f.Body.(*events.PartitionClaimed)
	switch {
	case claim && valid:
		p.epoch, p.sequence, p.broken = events.Epoch{N: p.epoch.N + 1, ID: c.ID}, 0, false
	case claim:
	case valid && copied(f):
		p.epoch, p.sequence = f.Epoch, f.Sequence+1
	case valid:
		p.sequence = f.Sequence + 1
	case f.Epoch == p.epoch && p.epoch.N > 0 && f.Sequence > p.sequence:
		if !p.broken {
			p.w.saw(sawGap)
		}
		p.broken = true
	}
}

// peers returns the partitions of its namespace.
func peers(p *partition) []*partition {
	if p.closed {
		return p.old
	}
	return p.w.parts
}

// copied says whether the fact begins the log of a copy.
func copied(f *events.Fact) bool {
	b, ok := f.Body.(*events.CarryBegun)
	return ok && b.Copied
}

func (p *partition) mix(r *events.Record) {
	h := fnv.New64a()
	for _, x := range r.Headers {
		h.Write(x.Value)
	}
	h.Write(r.Value)
	p.digest = p.digest*1099511628211 ^ h.Sum64()
}
