package sim

import (
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// node is one process, with a slot for each partition.
type node struct {
	w     *World
	index int
	name  string
	// ahead is how far its wall clock is ahead of the world's.
	ahead time.Duration
	up    bool
	// left says that its namespace was copied: it belongs to the old one.
	left bool
	// life counts its incarnations: messages for an earlier one are lost.
	life   int
	paused bool
	// pausedAt is when it was last paused.
	pausedAt events.Instant
	// inbox holds the messages that came while the node was paused.
	inbox []func()
	// heard is the number of the latest change of the offers that it has heard of.
	heard int
	sched *trapped
	slots []*slot
}

// slot is a node's share of one partition: an owner, a store, and the state that the shell would hold.
// taken is a work request that was acknowledged to a generation of an owner, in a life of its node.
type taken struct {
	life       int
	generation uint64
	ticket     string
	attempt    Attempt
}

type slot struct {
	node  *node
	part  *partition
	owner *supervisor.Owner
	store *Store
	// older is a checkpoint of the store.
	older *Store
	clock *supervisor.Clock
	// agreed says that the clock was known to be right at the latest look.
	agreed bool
	// mark is what the process keeps next to its store, for the next process to find.
	mark supervisor.Mark
	time *timeline
	// taken are the work requests that the owner knows to be acknowledged.
	taken map[taken]bool
	// answered is the offset up to which readsItsWrites has checked each input in the store.
	answered map[events.Input]int64
	// acked is the offset after the last record that the owner, in its epoch, knows to be durable, because it read the
	// record or has the acknowledgement.
	acked int64

	// stale is the epoch in which the owner believed itself to be when its process woke up, and which was over by then.
	stale events.Epoch

	// offers is what the owner last heard of.
	offers map[string]supervisor.Offer
	// offersBefore is what it had heard before offersAt.
	offersBefore map[string]supervisor.Offer
	offersAt     events.Instant

	// stopped says that the owner stopped because an input is lost.
	stopped bool

	producer *producer
	tail     *reading
	inputs   map[events.Input]*reading
}

func newNode(w *World, i int) *node {
	n := &node{w: w, index: i, name: string(rune('A' + i))}
	n.ahead = []time.Duration{0, 0, 2500, -1500, 300}[w.rng.IntN(5)] * time.Millisecond
	if w.faults.Unkind > 0 {
		n.ahead = min(n.ahead, 0) // otherwise all services would be kind
	}
	n.w.clocks.begunAhead = n.w.clocks.begunAhead || n.ahead > 0
	for _, p := range w.parts {
		n.slots = append(n.slots, &slot{node: n, part: p, store: NewStore()})
	}
	return n
}

// boot starts the process with the stores that it has.
func (n *node) boot() {
	n.up, n.paused, n.inbox, n.heard = true, false, nil, 0
	n.life++
	n.sched = &trapped{Process: NewProcess(), w: n.w}
	for _, s := range n.slots {
		s.boot()
		s.offered(map[string]supervisor.Offer{}) // until the first heartbeats arrive, it knows of no instance
	}
	n.w.offers.publishTo(n)
	n.ticks(n.life)
}

func (s *slot) boot() {
	w := s.node.w
	cfg := w.cfg
	cfg.Partition, cfg.Node = s.part.id, s.node.name
	cfg.Settings, cfg.SettingsOffset = w.settings.last()
	cfg.Level, cfg.MaxLevel = w.levels.level, w.levels.builds[s.node.index]
	cfg.Entropy = func() (b [16]byte) {
		for i := range b {
			b[i] = byte(w.rng.IntN(256))
		}
		return b
	}
	sched := s.node.sched
	cfg.Marked, cfg.Mark = s.mark, func(m supervisor.Mark) {
		if !sched.ended {
			s.mark = m
		}
	}
	o, err := supervisor.NewOwner(cfg, sched, s.store)
	if err != nil {
		w.fail("an owner cannot be made: %v", err)
		return
	}
	s.owner, s.producer, s.tail, s.inputs, s.stopped = o, nil, nil, nil, false
	s.clock, s.agreed, s.time, s.answered = supervisor.NewClock(s.node.reading()), false, &timeline{}, map[events.Input]int64{}
	w.schedules.boot(s)
	w.namedLimits.boot(s)
}

// tick is how often an owner looks at its timers.
const tick = 200

// quietTick replaces it in the hours in which nothing happens except that agents are away.
const quietTick = 20_000

func (n *node) ticks(life int) {
	every := tick
	switch {
	case n.w.opt.year() && !n.w.healed:
		every = yearTick
	case len(n.w.absent) > 0 || n.w.patient:
		every = quietTick
	}
	n.w.after(1+n.w.rng.IntN(every), func() {
		if n.life != life || !n.up {
			return
		}
		if !n.paused {
			for _, s := range n.slots {
				if n.life != life {
					return
				}
				s.owner.Tick(s.now())
				s.execute()
				s.asksToTrim()
				if !n.w.healed && n.w.rng.IntN(40) == 0 {
					s.older = s.store.Clone()
				}
			}
		}
		n.ticks(life)
	})
}

// receive passes a message to the process, now or when it wakes up.
func (n *node) receive(life int, handle func()) {
	switch {
	case n.life != life || !n.up:
	case n.paused:
		n.inbox = append(n.inbox, handle)
	default:
		handle()
	}
}

// tell delivers a message to the slot's owner, d milliseconds from now.
func (s *slot) tell(d int, message func(o *supervisor.Owner, now events.Instant)) {
	n, life := s.node, s.node.life
	n.w.after(d, func() {
		n.receive(life, func() {
			message(s.owner, s.now())
			s.execute()
		})
	})
}

// line is tell for answers that come later: they go to the process that asked, not to one that has started since.
func (s *slot) line() func(d int, message func(o *supervisor.Owner, now events.Instant)) {
	life := s.node.life
	return func(d int, message func(o *supervisor.Owner, now events.Instant)) {
		if s.node.life == life {
			s.tell(d, message)
		}
	}
}

func (n *node) wake() {
	n.w.note("%s wakes up", n.name)
	for _, s := range n.slots {
		if s.owner.Status().Owning && s.part.writer != nil && s.part.writer.slot != s {
			n.w.saw(sawOwnerWoke)
		}
	}
	n.paused = false
	life := n.life
	if n.w.now.Sub(n.pausedAt) > time.Second {
		for _, s := range n.slots {
			if n.life == life {
				s.woke()
			}
		}
	}
	waiting := n.inbox
	n.inbox = nil
	for _, m := range waiting {
		if n.w.violation == "" && n.life == life {
			m()
		}
	}
}

// woke tells the owner that it slept, as the shell does.
func (s *slot) woke() {
	if s.stale = (events.Epoch{}); s.owner.Status().Epoch != s.part.epoch {
		s.stale = s.owner.Status().Epoch
		if s.owner.Status().Owning && s.owner.Status().InFlight > 0 {
			s.node.w.saw(sawWokeInFlight)
		}
	}
	s.owner.Woke(s.now(), s.owner.Status().Generation, nil)
	s.execute()
}

// sends checks that an owner that slept sends no work in an epoch that was over when it woke up.
func (s *slot) sends(a *supervisor.Send) {
	if a.Kind == events.EffectWork && s.stale.N > 0 && s.owner.Status().Epoch == s.stale {
		s.node.w.fail("%s/%d sends work in the epoch %d, which was over when it woke up", s.node.name, s.part.id, s.stale.N)
	}
}

func (n *node) crash(store int) {
	n.up = false
	n.life++
	for _, s := range n.slots {
		if s.owner.Status().InFlight > 0 {
			n.w.saw(sawCrashInFlight)
		}
		if s.store.Next() < s.acked {
			n.w.saw(sawCrashUnstored)
		}
		s.release()
		switch {
		case store < 2:
			s.store, s.older, s.mark = NewStore(), nil, supervisor.Mark{} // with the directory
			n.w.saw(sawStoreLost)
		case store < 4 && s.older != nil:
			s.store, s.older = s.older, nil
			n.w.saw(sawStoreOlder)
		}
	}
	n.w.note("%s crashes (its store: %s)", n.name, []string{"lost", "lost", "an older one", "an older one", "kept", "kept", "kept", "kept", "kept", "kept"}[store])
}

// end ends the process, which leaves behind its stores and marks, and soon starts another.
func (n *node) end() {
	n.w.saw(sawLethal)
	n.crash(9)
	n.w.after(100+n.w.rng.IntN(1000), func() {
		if !n.up {
			n.restart()
		}
	})
}

func (n *node) restart() {
	if n.left {
		return
	}
	n.w.note("%s starts", n.name)
	n.boot()
	for p := range n.slots {
		if n.w.group[p] == n.index {
			n.assign(p, true)
		}
	}
}

// revive brings the node up, whatever happened to it before.
func (n *node) revive() {
	if !n.up {
		n.restart()
	}
	if n.paused {
		n.wake()
	}
}

// assign informs the node whether it should own the partition.
func (n *node) assign(p int, yes bool) {
	n.slots[p].tell(0, func(o *supervisor.Owner, now events.Instant) {
		if yes {
			o.Assign(now)
		} else {
			o.Revoke(now)
		}
	})
}
