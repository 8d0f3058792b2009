package virtualowner

import (
	"cmp"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// Config says what an engine runs.
type Config struct {
	// Begin is when the driver begins.
	Begin   events.Instant
	Version supervisor.Version
	// Settings are those of the namespace; nil means the defaults.
	Settings *events.Settings
	// Limits are the named limits that exist.
	Limits []string
	Offers map[string]supervisor.Offer
	// Scheduler knows the compiled definitions; nil means a new one. Only one engine may use it at a time.
	Scheduler *scheduler.Scheduler
	// Store keeps the state; nil means one in memory with room for one task.
	Store Store
	// Sent is called with each effect, before the owner learns that it was sent. An error ends the run.
	Sent func(supervisor.Send) error
}

// Store is a supervisor.Store that the engine writes.
type Store interface {
	supervisor.Store
	Commit(*events.Delta) error
}

// Engine is one owner with its partition in memory. It carries out every action at once.
type Engine struct {
	// Now is the time. The driver moves it, and then calls Tick.
	Now   events.Instant
	Owner *supervisor.Owner
	// Log is the log of the partition, State its fold, and Facts are the accepted facts in order.
	Log    []events.Record
	State  *events.State
	Facts  []*events.Fact
	Inputs map[events.Input][]events.Record
	// Err is a defect: the owner stopped, or the log cannot be folded.
	Err error

	store Store
	sent  func(supervisor.Send) error
	// tail is what the owner has read of the log, and read of its inputs. read is nil until it asks for them.
	tail     int64
	read     map[events.Input]int64
	gen      uint64
	versions versions
}

// versions is the catalog: the one version of the workflow.
type versions struct {
	version  supervisor.Version
	settings events.Settings
}

// Level implements supervisor.Catalog.
func (v versions) Level() int { return events.FormatVersion }

// Settings implements supervisor.Catalog.
func (v versions) Settings() (events.Settings, int64) { return v.settings, 0 }

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

// New returns an engine whose owner owns the partition, at the instant cfg.Begin.
func New(cfg Config) (*Engine, error) {
	settings := events.DefaultSettings()
	if cfg.Settings != nil {
		settings = *cfg.Settings
	}
	e := &Engine{
		Now: cfg.Begin.Add(-claimingTakes), store: cfg.Store, sent: cfg.Sent, Inputs: map[events.Input][]events.Record{}, State: events.NewState(0, nil),
		versions: versions{cfg.Version, settings},
	}
	if e.store == nil {
		e.store = newStore()
	}
	e.State.SetLevel(events.FormatVersion)
	own := supervisor.Config{Partitions: 1, Node: "test", FlushEvery: whenIdle, Level: events.FormatVersion, Settings: settings, Entropy: func() (b [16]byte) { return b }}
	var err error
	if e.Owner, err = supervisor.NewOwner(own, cmp.Or(cfg.Scheduler, scheduler.New()), e.store); err != nil {
		return nil, err
	}
	var limits []supervisor.LimitRecord
	for i, name := range cfg.Limits {
		limits = append(limits, supervisor.LimitRecord{Limit: events.LimitKey(name), Offset: int64(2 + i), Max: events.MaxLimit})
	}
	supervisor.SetLimits(e.Owner, e.Now, limits)
	e.Owner.SetOffers(e.Now, cfg.Offers)
	e.Owner.Assign(e.Now)
	e.Run()
	if !e.Owner.Status().Owning && e.Err == nil {
		return nil, fmt.Errorf("the engine does not start: it is %s", e.Owner.Status().Phase)
	}
	e.Now = cfg.Begin
	e.Tick()
	return e, e.Err
}

// OffersOf returns offers of all agents that a definition names, each with room for n attempts.
func OffersOf(d *scheduler.Definition, n int) map[string]supervisor.Offer {
	offers := map[string]supervisor.Offer{}
	for i := range d.Steps {
		for _, c := range d.Steps[i].Calls() {
			o, known := offers[c.Agent]
			if !known {
				o = supervisor.Offer{Window: n, Do: true, Undo: true, Functions: map[string]supervisor.Directions{}}
			}
			if c.Function != "" {
				o.Functions[c.Function] = supervisor.Directions{Do: true, Undo: true}
			}
			offers[c.Agent] = o
		}
	}
	return offers
}

// Width is how many attempts of a task may run at a time.
func Width(d *scheduler.Definition) (n int) {
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

// whenIdle writes the store only when nothing is in flight: once at each instant, before the time moves. Timers are looked up there.
const whenIdle = -1

// Put appends an input of the partition.
func (e *Engine) Put(in events.Input, r events.Record) {
	r.Offset = int64(len(e.Inputs[in]))
	e.Inputs[in] = append(e.Inputs[in], r)
}

// Tick lets the owner look at its timers, until nothing more happens at this instant.
func (e *Engine) Tick() {
	e.Owner.Tick(e.Now)
	e.Run()
	e.Owner.Tick(e.Now) // now it knows the ends of its inputs
	e.Run()
}

// maxActions bounds what happens at one instant: more is a defect of the engine.
const maxActions = 100_000

// Run carries out actions and delivers records until there are none.
func (e *Engine) Run() {
	for range maxActions {
		if e.Err != nil || !e.act() && !e.deliver() {
			return
		}
	}
	e.Err = fmt.Errorf("the engine does not come to rest at %s", e.Now)
}

func (e *Engine) act() bool {
	e.Owner.Decide()
	actions := e.Owner.TakeActions()
	for _, a := range actions {
		e.do(a)
	}
	return len(actions) > 0
}

func (e *Engine) do(a supervisor.Action) {
	switch a := a.(type) {
	case supervisor.Load:
		e.gen, e.tail, e.read = a.Generation, a.From, nil
		e.Owner.LogEnd(e.Now, a.Generation, 0, int64(len(e.Log)), nil)
	case supervisor.PauseLog, supervisor.ResumeLog, supervisor.Release: // reading the log costs nothing here
	case supervisor.Claim:
		at := e.land(a.Record)
		e.Owner.Claimed(e.Now, a.Generation, at[0], nil)
	case supervisor.Append:
		e.Owner.Appended(e.Now, a.Generation, a.Batch, e.land(a.Records...), nil)
	case supervisor.Commit:
		e.fail(e.store.Commit(a.Delta))
	case supervisor.ReadInputs:
		if e.read == nil {
			e.read = map[events.Input]int64{}
		}
		for in, from := range a.From {
			e.read[in] = from
		}
	case supervisor.ReadFacts:
		e.Owner.Replayed(e.Now, a.Generation, a.Destination, e.Log[a.From:a.To], a.To)
	case supervisor.FetchInput:
		in, _, offset, _ := a.Cause.Input()
		e.Owner.Fetched(e.Now, a.Generation, a.Cause, e.Inputs[in][offset], nil)
	case supervisor.Send:
		e.send(a)
	case supervisor.AskEnds:
		ends := map[events.Input]int64{}
		for _, in := range inputOrder {
			ends[in] = int64(len(e.Inputs[in]))
		}
		e.Owner.Ends(e.Now, a.Generation, a.Question, ends, nil)
	case supervisor.AskEnd:
		e.Owner.LogEnd(e.Now, a.Generation, a.Question, int64(len(e.Log)), nil)
	case supervisor.AskCatalog:
		e.Owner.Definitions(e.Now, a.Generation, a.Question, e.versions, nil)
	case supervisor.Stop:
		e.fail(a.Err)
	default:
		e.fail(fmt.Errorf("the action %T is not known here", a))
	}
}

// fail notes the first defect.
func (e *Engine) fail(err error) {
	if e.Err == nil {
		e.Err = err
	}
}

// send passes an effect on, and lands what tasks and limits say to one another. Nobody reads alerts and dead letters here: their facts are in the log.
func (e *Engine) send(a supervisor.Send) {
	if e.sent != nil {
		if err := e.sent(a); err != nil {
			e.fail(err)
			return
		}
	}
	if a.Kind == events.EffectPermit { // the limits have their home here too
		e.Put(events.Reports, a.Record)
	}
	e.Owner.Sent(e.Now, a.Generation, a.ID, nil)
}

// land appends records to the log and folds them.
func (e *Engine) land(records ...events.Record) (offsets []int64) {
	for _, r := range records {
		r.Offset = int64(len(e.Log))
		e.Log = append(e.Log, r)
		offsets = append(offsets, r.Offset)
		f, err := events.DecodeFact(&r)
		if err == nil {
			_, err = e.State.Apply(f, r.Offset)
		}
		if err != nil {
			e.fail(err)
			return offsets
		}
		e.Facts = append(e.Facts, f)
	}
	return offsets
}

// inputOrder delivers reports first, as a node does.
var inputOrder = []events.Input{events.Reports, events.Submissions}

// deliver gives the owner what it has not read.
func (e *Engine) deliver() bool {
	if e.gen != e.Owner.Status().Generation {
		return false
	}
	if end := int64(len(e.Log)); e.tail < end {
		from := e.tail
		e.tail = end
		e.Owner.LogRecords(e.Now, e.gen, append([]events.Record(nil), e.Log[from:end]...), end)
		return true
	}
	if e.read == nil {
		return false
	}
	for _, in := range inputOrder {
		if end, from := int64(len(e.Inputs[in])), e.read[in]; from < end {
			e.read[in] = end
			e.Owner.Input(e.Now, e.gen, in, append([]events.Record(nil), e.Inputs[in][from:end]...), end)
			return true
		}
	}
	return false
}
