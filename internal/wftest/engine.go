package wftest

import (
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// engine is one owner with its partition in memory. It carries out every action at once.
type engine struct {
	now    events.Instant
	owner  *supervisor.Owner
	store  *store
	log    []events.Record
	inputs map[events.Input][]events.Record
	// tail is what the owner has read of the log, and read of its inputs. read is nil until it asks for them.
	tail int64
	read map[events.Input]int64
	gen  uint64
	// state is the fold of the log, and facts are the accepted facts in order.
	state *events.State
	facts []*events.Fact
	// works are the requests that no mock has answered yet, and cancelled the children that are to turn back.
	works     []call
	cancelled []events.ChildAnswer
	versions  versions
	// err is a defect: the owner stopped, or the log cannot be folded.
	err error
}

// versions is the catalog: the one version of the workflow.
type versions struct{ version supervisor.Version }

// Level implements supervisor.Catalog.
func (v versions) Level() int { return events.FormatVersion }

// Settings implements supervisor.Catalog.
func (v versions) Settings() (events.Settings, int64) { return events.DefaultSettings(), 0 }

// Current implements supervisor.Catalog.
func (v versions) Current(name string) (supervisor.Version, bool) {
	return v.version, name == v.version.Workflow
}

// Version implements supervisor.Catalog.
func (v versions) Version(name string, n int) (supervisor.Version, bool) {
	return v.version, name == v.version.Workflow && n == v.version.Version
}

// ByHash implements supervisor.Catalog.
func (v versions) ByHash(name, hash string) (supervisor.Version, bool) {
	return v.version, name == v.version.Workflow && hash == v.version.Hash
}

// begin is when each case begins.
const begin events.Instant = 1_798_761_600_000 // 2027-01-01T00:00:00Z

// newEngine returns an engine whose owner owns the partition, at the instant begin.
func newEngine(src *scheduler.Source, d *scheduler.Definition) (*engine, error) {
	body, err := events.Marshal(d)
	if err != nil {
		return nil, err
	}
	e := &engine{
		now: begin.Add(-claimingTakes), store: newStore(), inputs: map[events.Input][]events.Record{}, state: events.NewState(0, nil),
		versions: versions{supervisor.Version{Workflow: src.Workflow, Version: 1, Hash: src.Hash, Body: body, Offset: 1, Level: src.Level}},
	}
	e.state.SetLevel(events.FormatVersion)
	cfg := supervisor.Config{Partitions: 1, Node: "test", Level: events.FormatVersion, Entropy: func() (b [16]byte) { return b }}
	if e.owner, err = supervisor.NewOwner(cfg, scheduler.New(), e.store); err != nil {
		return nil, err
	}
	offers, window := map[string]supervisor.Offer{}, windowOf(d)
	for i := range d.Steps {
		for _, c := range d.Steps[i].Calls() {
			o, known := offers[c.Agent]
			if !known {
				o = supervisor.Offer{Window: window, Do: true, Undo: true, Functions: map[string]supervisor.Directions{}}
			}
			if c.Function != "" {
				o.Functions[c.Function] = supervisor.Directions{Do: true, Undo: true}
			}
			offers[c.Agent] = o
		}
	}
	var limits []supervisor.LimitRecord
	for i, name := range d.Limits() {
		limits = append(limits, supervisor.LimitRecord{Limit: events.LimitKey(name), Offset: int64(2 + i), Max: events.MaxLimit})
	}
	supervisor.SetLimits(e.owner, e.now, limits)
	e.owner.SetOffers(e.now, offers)
	e.owner.Assign(e.now)
	e.run()
	if !e.owner.Status().Owning && e.err == nil {
		return nil, fmt.Errorf("the engine does not start: it is %s", e.owner.Status().Phase)
	}
	e.now = begin
	e.tick()
	return e, e.err
}

// windowOf is how many attempts of the task may run at a time. No agent makes one wait.
func windowOf(d *scheduler.Definition) (n int) {
	for i := range d.Steps {
		n += 2
		if f := d.Steps[i].For; f != nil {
			n += 2 * f.Parallel
		}
	}
	return n
}

// claimingTakes is the time between the claim of the partition and the first input. An attempt must start after the claim.
const claimingTakes = time.Second

// put appends an input of the partition.
func (e *engine) put(in events.Input, r events.Record) {
	r.Offset = int64(len(e.inputs[in]))
	e.inputs[in] = append(e.inputs[in], r)
}

// tick lets the owner look at its timers, until nothing more happens at this instant.
func (e *engine) tick() {
	e.owner.Tick(e.now)
	e.run()
	e.owner.Tick(e.now) // now it knows the ends of its inputs
	e.run()
}

// maxActions bounds what happens at one instant: more is a defect of the engine.
const maxActions = 100_000

// run carries out actions and delivers records until there are none.
func (e *engine) run() {
	for range maxActions {
		if e.err != nil || !e.act() && !e.deliver() {
			return
		}
	}
	e.err = fmt.Errorf("the engine does not come to rest at %s", e.now)
}

func (e *engine) act() bool {
	e.owner.Decide()
	actions := e.owner.TakeActions()
	for _, a := range actions {
		e.do(a)
	}
	return len(actions) > 0
}

func (e *engine) do(a supervisor.Action) {
	switch a := a.(type) {
	case supervisor.Load:
		e.gen, e.tail, e.read = a.Generation, a.From, nil
		e.owner.LogEnd(e.now, a.Generation, 0, int64(len(e.log)), nil)
	case supervisor.PauseLog, supervisor.ResumeLog, supervisor.Release: // reading the log costs nothing here
	case supervisor.Claim:
		at := e.land(a.Record)
		e.owner.Claimed(e.now, a.Generation, at[0], nil)
	case supervisor.Append:
		e.owner.Appended(e.now, a.Generation, a.Batch, e.land(a.Records...), nil)
	case supervisor.Commit:
		e.store.commit(a.Delta)
	case supervisor.ReadInputs:
		if e.read == nil {
			e.read = map[events.Input]int64{}
		}
		for in, from := range a.From {
			e.read[in] = from
		}
	case supervisor.ReadFacts:
		e.owner.Replayed(e.now, a.Generation, a.Destination, e.log[a.From:a.To], a.To)
	case supervisor.FetchInput:
		in, _, offset, _ := a.Cause.Input()
		e.owner.Fetched(e.now, a.Generation, a.Cause, e.inputs[in][offset], nil)
	case supervisor.Send:
		e.send(a)
	case supervisor.AskEnds:
		ends := map[events.Input]int64{}
		for _, in := range inputOrder {
			ends[in] = int64(len(e.inputs[in]))
		}
		e.owner.Ends(e.now, a.Generation, a.Question, ends, nil)
	case supervisor.AskEnd:
		e.owner.LogEnd(e.now, a.Generation, a.Question, int64(len(e.log)), nil)
	case supervisor.AskCatalog:
		e.owner.Definitions(e.now, a.Generation, a.Question, e.versions, nil)
	case supervisor.Stop:
		e.err = a.Err
	default:
		e.err = fmt.Errorf("the action %T is not known here", a)
	}
}

// send notes the work requests, and lands what tasks and limits say to one another. Nobody reads alerts and dead letters here: their facts are in the log.
func (e *engine) send(a supervisor.Send) {
	if a.Kind == events.EffectWork {
		w, _, err := events.DecodeWork(&a.Record)
		if err != nil {
			e.err = err
			return
		}
		e.works = append(e.works, call{w, nil})
	}
	if a.Kind == events.EffectStart || a.Kind == events.EffectChild {
		if err := e.relative(&a.Record); err != nil {
			e.err = err
			return
		}
	}
	if a.Kind == events.EffectPermit { // the limits have their home here too
		e.put(events.Reports, a.Record)
	}
	e.owner.Sent(e.now, a.Generation, a.ID, nil)
}

// land appends records to the log and folds them.
func (e *engine) land(records ...events.Record) (offsets []int64) {
	for _, r := range records {
		r.Offset = int64(len(e.log))
		e.log = append(e.log, r)
		offsets = append(offsets, r.Offset)
		f, err := events.DecodeFact(&r)
		if err == nil {
			_, err = e.state.Apply(f, r.Offset)
		}
		if err != nil {
			e.err = err
			return offsets
		}
		e.facts = append(e.facts, f)
	}
	return offsets
}

// inputOrder delivers reports first, as a node does.
var inputOrder = []events.Input{events.Reports, events.Submissions}

// deliver gives the owner what it has not read.
func (e *engine) deliver() bool {
	if e.gen != e.owner.Status().Generation {
		return false
	}
	if end := int64(len(e.log)); e.tail < end {
		from := e.tail
		e.tail = end
		e.owner.LogRecords(e.now, e.gen, append([]events.Record(nil), e.log[from:end]...), end)
		return true
	}
	if e.read == nil {
		return false
	}
	for _, in := range inputOrder {
		if end, from := int64(len(e.inputs[in])), e.read[in]; from < end {
			e.read[in] = end
			e.owner.Input(e.now, e.gen, in, append([]events.Record(nil), e.inputs[in][from:end]...), end)
			return true
		}
	}
	return false
}
