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
	// claims are the identifiers of the claims that were current.
	claims map[string]bool
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
	// workflow is the name that a submission asks for, known whether it was applied when the submission landed.
	workflow string
	known    bool
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
		claims: map[string]bool{}, arrived: map[string]bool{}, undone: map[string]bool{},
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
	if c.kind == metaSubmission {
		_, c.known = catalog(compiled()[:p.w.catalogEnd]).Current(c.workflow)
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
	if p.valid(f) {
		p.before(f, by)
	}
	fate, err := p.state.Apply(f, r.Offset)
	if err != nil {
		w.fail("INV2: partition %d offset %d %s cannot be folded: %v", p.id, r.Offset, describe(r), err)
		return
	}
	w.note("log/%d %d %s %s", p.id, r.Offset, map[events.Fate]string{events.FateAccepted: "accepted", events.FateVoid: "VOID"}[fate], describe(r))
	d, err := p.state.Flush(nil)
	if err != nil {
		w.fail("INV2: partition %d offset %d: %v", p.id, r.Offset, err)
		return
	}
	p.sums = append(p.sums, d.Sum)
	if fate != events.FateAccepted {
		w.report.Void++
		return
	}
	w.report.Facts++
	w.report.Kinds[f.Body.Name()]++
	p.after(f, by)
}

// valid says whether the fold will accept the fact: the rule that every reader of the log knows.
func (p *partition) valid(f *events.Fact) bool {
	s, lax := &p.state.Partition, p.w.lax()
	if c, ok := f.Body.(*events.PartitionClaimed); ok {
		return (c.Prev == s.Epoch.ID || lax.AnyClaim) && c.ID != s.Epoch.ID
	}
	return s.Epoch.N > 0 && f.Epoch == s.Epoch && !s.Broken && (f.Sequence == s.NextSequence || lax.AnySequence)
}

func (p *partition) mix(r *events.Record) {
	h := fnv.New64a()
	for _, x := range r.Headers {
		h.Write(x.Value)
	}
	h.Write(r.Value)
	p.digest = p.digest*1099511628211 ^ h.Sum64()
}

// committed checks a commit against the reader's fold at the same offset (INV2, INV3), and that every live task has
// something that moves it (INV10).
func (p *partition) committed(s *slot, a supervisor.Commit) {
	w, d := p.w, a.Delta
	if d.Next > p.log.end() {
		w.fail("INV3: %s/%d commits up to %d, the log ends at %d", s.node.name, p.id, d.Next, p.log.end())
		return
	}
	if d.Sum != p.sums[d.Next-1] {
		w.fail("INV2: %s/%d commits a state at %d that is not the fold of the log", s.node.name, p.id, d.Next)
		return
	}
	if err := s.store.Apply(d, a.Last); err != nil {
		w.fail("INV3: %s/%d: %v", s.node.name, p.id, err)
		return
	}
	w.note("%s/%d commits up to %d", s.node.name, p.id, d.Next)
	for _, t := range d.Tasks {
		k := t.Keys
		if t.Encoding != nil && !k.State.Ended() && k.State != events.Parked && k.Due == 0 && len(k.Ready) == 0 && !k.Unplanned {
			w.fail("INV10: %s/%d commits task %q, %s, with nothing that moves it", s.node.name, p.id, t.ID, k.State)
		}
	}
}
