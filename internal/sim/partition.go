package sim

import (
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// partition is the topics of one partition, and its judge: a reader that folds every record as it lands.
type partition struct {
	w    *World
	id   int32
	log  topic
	subs inputTopic
	reps inputTopic
	dead []deadLetter

	state *events.State
	// sums is the state hash after each record.
	sums []events.Hash
	// facts are the accepted facts by their ID; writer is who made the current claim.
	facts  map[string]*events.Fact
	writer *producer
	// at is where each accepted fact lies.
	at map[*events.Fact]int64
	// claims are the offsets of the claims that were current, by their identifiers.
	claims map[string]int64
	// byCause holds the accepted fact of each input.
	byCause map[events.Cause]*events.Fact
	// content is the accepted content of each task ID ever accepted.
	content map[string]map[string]bool
	// cancelled are the tasks whose cancel was held when they were accepted: none of their steps starts.
	cancelled map[string]bool
	everHeld  map[string]bool
	// owed are the effects behind the settled position; arrived are those that landed or were given up.
	owed    []debt
	arrived map[string]bool
	// saga is the second telling of each task.
	saga map[string]*saga
	// epoch, sequence and broken are what the next fact must carry.
	epoch    events.Epoch
	sequence uint64
	broken   bool
	// time is that of the latest fact.
	time events.Instant
	// startedAt is the latest start of each step.
	startedAt map[string]*events.Fact
	// attempts are where all attempts began and ended.
	attempts map[attempt]span
	// undone are the tasks whose effects must all be gone.
	undone map[string]bool
	digest uint64
}

type inputTopic struct {
	topic
	meta []*meta
}

// meta is what the world knows of an input that it wrote.
type meta struct {
	kind    metaKind
	task    string
	content string
	report  events.Report
	request events.Request
	// workflow is what a submission asks for, of that version and stamp where they are given; known says whether it was
	// applied when the submission landed, and catalog how many were.
	workflow string
	version  int
	stamp    string
	known    bool
	catalog  int
	// tooLarge and unfit say that a submission must be rejected: by its size, by its schema.
	tooLarge, unfit bool
	// poison says that judging it panics.
	poison bool
	// origin is where a forwarded copy was found.
	origin events.Cause
}

type metaKind int

const (
	metaControl metaKind = iota
	metaSubmission
	metaReport
	metaRequest
	metaGarbage
)

type deadLetter struct {
	in     events.Input
	record events.Record
}

// debt is one effect of an accepted fact.
type debt struct {
	at   events.Position
	key  string
	fact *events.Fact
}

func newPartition(w *World, id int32) *partition {
	p := &partition{
		w: w, id: id, state: events.NewState(id, nil), facts: map[string]*events.Fact{}, byCause: map[events.Cause]*events.Fact{},
		content: map[string]map[string]bool{}, cancelled: map[string]bool{}, everHeld: map[string]bool{},
		claims: map[string]int64{}, attempts: map[attempt]span{}, arrived: map[string]bool{}, undone: map[string]bool{},
		saga: map[string]*saga{}, startedAt: map[string]*events.Fact{}, at: map[*events.Fact]int64{},
	}
	p.state.SetLax(w.lax())
	return p
}

func (w *World) lax() events.Lax {
	return events.Lax{AnyClaim: w.opt.Off&supervisor.RuleClaimPrev != 0, AnySequence: w.opt.Off&supervisor.RuleSequence != 0}
}

func (p *partition) input(in events.Input) *inputTopic {
	if in == events.Reports {
		return &p.reps
	}
	return &p.subs
}

// put lands an input.
func (p *partition) put(in events.Input, r events.Record, m *meta) {
	t := p.input(in)
	r.Partition, r.Topic = p.id, "sim."+string(in)
	c := *m
	c.catalog = p.w.catalogEnd
	if c.kind == metaSubmission {
		applied := catalog(c.catalog)
		if _, c.known = applied.Current(c.workflow); c.version != 0 {
			_, c.known = applied.Version(c.workflow, c.version)
		}
	}
	t.meta = append(t.meta, &c)
	p.w.note("%s/%d has at %d %v of %q", in, p.id, t.end(), []string{"a marker", "a submission", "a report", "a request", "garbage"}[c.kind], c.task)
	p.w.land(&t.topic, []events.Record{r})
}

// forwarded returns what is known of the copy of an input that was sent home.
func (p *partition) forwarded(r *events.Record, in events.Input) *meta {
	from, at, _ := strings.Cut(r.Header(events.HeaderForwardedFrom), "/")
	offset, err := strconv.ParseInt(at, 10, 64)
	if err != nil || from != strconv.Itoa(int(p.id)) || offset >= p.input(in).end() {
		p.w.fail("a copy says that it was found at %q", r.Header(events.HeaderForwardedFrom))
		return &meta{kind: metaGarbage}
	}
	m := *p.input(in).meta[offset]
	m.origin = events.CauseInput(in, p.id, offset)
	return &m
}

// judge folds one landed record and checks what it says.
func (p *partition) judge(r *events.Record, by *producer) {
	w := p.w
	p.mix(r)
	f, err := events.DecodeFact(r)
	if err != nil {
		w.fail("partition %d offset %d cannot be decoded: %v", p.id, r.Offset, err)
		return
	}
	valid := p.valid(f)
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
	if w.aside.IntN(32) == 0 {
		p.sumsUp(d.Sum)
	}
	if !valid {
		w.report.Void++
		return
	}
	w.report.Facts++
	w.report.Kinds[f.Body.Name()]++
	p.at[f] = r.Offset
	p.after(f, by)
}

// valid says whether the fold will accept the fact: the rule that every reader of the log knows, by the judge's own
// count.
func (p *partition) valid(f *events.Fact) bool {
	lax := p.w.lax()
	if c, ok := f.Body.(*events.PartitionClaimed); ok {
		return (c.Prev == p.epoch.ID || lax.AnyClaim) && c.ID != p.epoch.ID
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
	case valid:
		p.sequence = f.Sequence + 1
	case f.Epoch == p.epoch && p.epoch.N > 0 && f.Sequence > p.sequence:
		if !p.broken {
			p.w.saw(sawGap)
		}
		p.broken = true
	}
}

func (p *partition) mix(r *events.Record) {
	h := fnv.New64a()
	for _, x := range r.Headers {
		h.Write(x.Value)
	}
	h.Write(r.Value)
	p.digest = p.digest*1099511628211 ^ h.Sum64()
}
