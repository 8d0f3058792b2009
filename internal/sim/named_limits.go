package sim

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// gate is the named limit of the steps of the workflows wide and firm.
const gate = "limit/gate"

// namedLimits are the objects of the limit gate. An operator changes it, and each node hears of that late.
type namedLimits struct {
	w *World
	// records are those of the definitions, by their offsets, which begin at 1.
	records []supervisor.LimitRecord
	// heard is how many of them each node has read, by its index.
	heard map[int]int
	// given is when it gave permits.
	given Given
	// dice draws for nothing else, so that other draws stay as they are.
	dice *rand.Rand
}

func newNamedLimits(w *World, seed uint64) *namedLimits {
	l := &namedLimits{w: w, heard: map[int]int{}, dice: rand.New(rand.NewPCG(seed, 0x11417ed))}
	l.records = []supervisor.LimitRecord{l.draw(1)}
	return l
}

// draw draws the object of the next record.
func (l *namedLimits) draw(least int) supervisor.LimitRecord {
	r := supervisor.LimitRecord{Limit: gate, Offset: int64(len(l.records)) + 1, Max: least + l.dice.IntN(5-least)}
	if r.Max > 0 && l.dice.IntN(2) == 0 {
		r.Rate = []string{"1/s", "20/m", "7/s", "60/s"}[l.dice.IntN(4)]
		if l.dice.IntN(4) == 0 {
			r.Max = 0
		}
	}
	return r
}

// plan spreads what operators do with the limit over the time of chaos.
func (l *namedLimits) plan() {
	w := l.w
	for range l.dice.IntN(4) {
		w.after(l.dice.IntN(int(w.opt.Chaos.Milliseconds())), func() { l.apply(l.draw(0)) })
	}
}

// apply records the object, or a deletion, and lets the nodes hear of it.
func (l *namedLimits) apply(r supervisor.LimitRecord) {
	l.records = append(l.records, r)
	l.w.note("limit gate, record %d: %d, %q", len(l.records), r.Max, r.Rate)
	for _, n := range l.w.nodes {
		known, life := len(l.records), n.life
		l.w.after(1+l.dice.IntN(8000), func() {
			n.receive(life, func() { l.tell(n, known) })
		})
	}
}

// tell lets the owners of a node know the first records.
func (l *namedLimits) tell(n *node, known int) {
	if n.left || known <= l.heard[n.index] {
		return
	}
	l.heard[n.index] = known
	for _, slot := range n.slots {
		if l.isHome(slot) {
			supervisor.SetLimits(slot.owner, slot.now(), l.records[known-1:known])
			slot.execute()
		}
	}
}

func (l *namedLimits) isHome(slot *slot) bool {
	return events.Home(gate, l.w.opt.Partitions) == slot.part.id
}

// boot tells an owner of a process that starts what the limit is.
func (l *namedLimits) boot(slot *slot) {
	l.heard[slot.node.index] = len(l.records)
	if l.isHome(slot) {
		supervisor.SetLimits(slot.owner, slot.now(), l.records[len(l.records)-1:])
	}
}

// heal applies the limit once more if it was deleted, or the tasks would wait.
func (l *namedLimits) heal() {
	if r := l.records[len(l.records)-1]; r.Max == 0 && r.Rate == "" {
		l.apply(l.draw(1))
	}
}

// Applied implements Objects.
func (l *namedLimits) Applied(limit string, offset int64) (r supervisor.LimitRecord, known bool) {
	i := slices.IndexFunc(l.records, func(r supervisor.LimitRecord) bool { return r.Limit == limit && r.Offset == offset })
	if i < 0 {
		return r, false
	}
	return l.records[i], true
}

// Given implements Objects.
func (l *namedLimits) Given(limit string) *Given {
	if limit != gate {
		return new(Given) // only the gate has a rate
	}
	return &l.given
}

// Most implements Objects.
func (l *namedLimits) Most(string) (most int) {
	for _, r := range l.records {
		if most = max(most, r.Max); r.Max == 0 && r.Rate != "" {
			return math.MaxInt
		}
	}
	return most
}

// waitsWithin says whether a step of the task waits for a permit: of a limit that is paused, perhaps. Rest finds permits that are free.
func waitsWithin(t *events.Task) bool {
	return slices.ContainsFunc(t.StepPermits, func(p events.StepPermit) bool { return p.State == events.PermitStateAsked })
}

// see counts what happens to the permits of steps.
func (l *namedLimits) see(f *events.Fact, state *events.State) {
	switch b := f.Body.(type) {
	case *events.LimitAdopted:
		if x := state.Limits.Get(b.Limit); x != nil && b.Max > x.Max && x.Next() != nil {
			l.w.saw(sawLimitRaised)
		}
		if b.Removes() {
			l.w.saw(sawLimitDeleted)
		}
	case *events.PermitsDecided:
		x := state.Limits.Get(b.Limit)
		if b.Granted != nil && b.Granted.Operation == events.Undo && x != nil && len(x.Waiting()) > 1 {
			if own := x.Permit(*b.Granted); own == nil || !own.Held() {
				l.w.saw(sawUndoFirst)
			}
		}
		if b.Asked != nil && b.Granted == nil && x != nil && x.Room() > 0 && f.Time < x.OpensAt() {
			l.w.saw(sawPaced)
		}
		if b.Asked != nil && b.Asked.Link.Path != "" && b.Granted == nil {
			l.w.saw(sawStepPermitWaits)
		}
	case *events.PermitReleased:
		t, _ := state.Task(f.Task)
		if b.Link.Path == "" || t == nil {
			return
		}
		if p := events.StepPermitOf(t, b.Link.Path, b.Link.Operation); p != nil && !p.Used {
			l.w.saw(sawStepPermitUnused)
		}
		if b.QuietAt > f.Time && b.Link.Operation == events.Undo {
			l.w.saw(sawUndoPermitInDoubt)
		}
	}
}
