package supervisor

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
)

// delays holds the delayed destinations in order, the same as Partition.Delayed. docs/protocol.md, "A destination that takes
// nothing is delayed".
type delays struct {
	*core
	list []*delayed
	// reading is the destination whose effects are being read from the log, up to readTo.
	reading string
	readTo  int64
	// later are the facts that became durable while the log was read to its end; without them, reading would never finish under
	// load. They end at laterTo, which is zero if there were too many, or if the log is not being read to its end.
	later   []later
	laterTo int64
	// lastRead is the destination that was read for last.
	lastRead string
}

// later is a fact that became durable during a read.
type later struct {
	fact   *events.Fact
	offset int64
}

func (x *delays) reset() { *x = delays{core: x.core} }

// delayed is a destination that has not taken its effects for a while. The watermark does not wait for it, so it holds back
// nothing else: the log says from which position on its effects are owed, and effects that do not fit in memory are read from
// there again.
type delayed struct {
	destination string
	// entries are facts with unacknowledged effects for it, in log order; settled counts acknowledged ones that wait behind an
	// unacknowledged one.
	entries []*entry
	settled int
	// bytes is the size of the records that are not acknowledged.
	bytes int
	// read is the position of the latest fact whose effects for it are known, readAt its time, and next the offset after it.
	read   events.Position
	readAt events.Instant
	next   int64
	// notedAt is when the log last recorded its position.
	notedAt events.Instant
}

const (
	// delayedRoom bounds the facts that are read again for a delayed destination and kept in memory.
	delayedRoom = 1000
	// delayedShare is the part of Config.UnacknowledgedBytes beyond which no more of its effects are read.
	delayedShare = 8
	// delayedPage is how many log records are read at once for a delayed destination.
	delayedPage = 1000
	// crowdedShare is how much sooner than after Config.DelayAfter a destination is delayed while the room for unacknowledged effects is half
	// taken.
	crowdedShare = 10
	// delayedNote is the minimum time between two facts that record the position of a delayed destination.
	delayedNote = 10 * time.Second
)

// destination says what an effect waits for: the topic of an agent, the alerts, the dead letters of an input, or a partition of an
// input, or a reply topic.
func (y *effect) destination() string { return y.topic + y.part }

// after returns the position up to which the destination has taken all its effects.
func (d *delayed) after() events.Position {
	if len(d.entries) > 0 {
		return d.entries[0].before
	}
	return d.read
}

func (d *delayed) waiting() int { return len(d.entries) - d.settled }

// filled is how much of the room of a delayed destination is taken, by number or by size.
func (x *delays) filled(d *delayed) float64 {
	return max(float64(d.waiting())/delayedRoom, float64(d.bytes*delayedShare)/float64(x.cfg.UnacknowledgedBytes))
}

// trim drops the entries that are acknowledged.
func (d *delayed) trim() {
	for len(d.entries) > 0 && d.entries[0].done() {
		d.entries[0] = nil
		d.entries = d.entries[1:]
		d.settled--
	}
	if len(d.entries) > 0 && d.settled > settledKept && d.settled > len(d.entries)/2 {
		d.entries = slices.DeleteFunc(d.entries, (*entry).done)
		d.settled = 0
	}
}

// concerns says whether a fact may have effects for the destination. Building the work of a fact also chooses its recipient, so
// it is built only for its own destination.
func (d *delayed) concerns(f *events.Fact) bool {
	if d.replies() {
		return mayAnswer(f)
	}
	w, ok := workOf(f)
	return ok == d.work() && (!ok || workTopic+w.Agent == d.destination)
}

// work says whether the destination is an agent.
func (d *delayed) work() bool { return strings.HasPrefix(d.destination, workTopic) }

// owesEnd says whether the schedule that started a task may not have its end yet, because the reports of its home are delayed.
func (x *delays) owesEnd(t *events.Task) bool {
	if t.Schedule == "" {
		return false
	}
	home := events.Home(events.ScheduleKey(t.Schedule), x.cfg.Partitions)
	d := x.to(string(events.Reports) + "/" + strconv.Itoa(int(home)))
	return d != nil && d.after().Before(t.Last)
}

// waits says whether the destination takes effects that are sent again only after the reports are judged: see keepWork.
func (d *delayed) waits() bool {
	return d.work() || strings.HasPrefix(d.destination, string(events.Submissions)+"/")
}

// to returns a delayed destination, nil if it is not delayed.
func (x *delays) to(destination string) *delayed {
	for _, d := range x.list {
		if d.destination == destination {
			return d
		}
	}
	return nil
}

// takeOver continues with the destinations that an earlier owner found delayed.
func (x *delays) takeOver() {
	for to, after := range x.state.Partition.Delayed {
		x.add(&delayed{destination: to, read: after, next: x.state.OffsetAfter(after), notedAt: x.now})
	}
}

func (x *delays) add(d *delayed) {
	x.list = append(x.list, d)
	slices.SortFunc(x.list, func(a, b *delayed) int { return strings.Compare(a.destination, b.destination) })
}

// separate separates the effects for delayed destinations from the others. They join the destination if it has room and already
// has everything before the fact in memory; otherwise they are read from the log later.
func (x *delays) separate(f *events.Fact, offset int64, list []*effect) (rest []*effect) {
	if x.laterTo != 0 && x.laterTo == x.outbox.next {
		if x.laterTo = offset + 1; len(x.later) < delayedRoom {
			x.later = append(x.later, later{f, offset})
		} else {
			x.later, x.laterTo = nil, 0
		}
	}
	for _, d := range x.list {
		if offset < d.next || d.next < x.outbox.next || x.filled(d) >= 1 || d.waits() && !x.outbox.judged && f.Epoch != x.state.Partition.Epoch {
			continue
		}
		x.join(d, f, list, offset+1)
	}
	return slices.DeleteFunc(list, func(y *effect) bool { return x.to(y.destination()) != nil })
}

// join adds the effects of a fact for the destination, which is then complete up to the offset.
func (x *delays) join(d *delayed, f *events.Fact, list []*effect, next int64) {
	own := slices.Clone(list)
	own = slices.DeleteFunc(own, func(y *effect) bool { return y.destination() != d.destination })
	if len(own) > 0 {
		d.entries = append(d.entries, x.outbox.entryOf(f, d.read, own, d))
	}
	d.read, d.readAt, d.next = f.Position(), f.Time, next
}

// update records which destinations are delayed, their positions, and which have caught up.
func (x *delays) update() error {
	if err := x.recordNew(); err != nil {
		return err
	}
	for _, d := range slices.Clone(x.list) {
		switch {
		//mutant:caught-up-is-empty
		case len(d.entries) == 0 && d.next >= x.outbox.next:
			if err := x.note(&events.EffectsCaughtUp{Destination: d.destination}); err != nil {
				return err
			}
			x.list = slices.DeleteFunc(x.list, func(y *delayed) bool { return y == d })
		case x.now.Sub(d.notedAt) >= delayedNote && x.state.Partition.Delayed[d.destination].Before(d.after()):
			if err := x.note(&events.EffectsDelayed{Destination: d.destination, After: d.after()}); err != nil {
				return err
			}
			d.notedAt = x.now
		}
	}
	x.readOn()
	return nil
}

// recordNew records that the destination of the oldest effect is delayed, and repeats this until the oldest is young enough. A burst
// fills the room with effects that are taken all the while, so its destination is not delayed at once, even if there is no room.
// Effects that were not sent yet wait for something else, not for their destination.
func (x *delays) recordNew() error {
	for !x.waking.held {
		at := slices.IndexFunc(x.outbox.entries, func(e *entry) bool { return e.since != 0 && !e.done() })
		if at < 0 {
			return nil
		}
		e := x.outbox.entries[at]
		after := x.cfg.DelayAfter
		if x.outbox.filled() >= 0.5 {
			after /= crowdedShare
		}
		if x.now.Sub(e.since) < after {
			return nil
		}
		at = slices.IndexFunc(e.effects, func(y *effect) bool { return !y.done })
		to := e.effects[at].destination()
		if x.replies.tooMany(to) {
			return nil
		}
		d := x.takeOut(to)
		//mutant:delayed-from-the-oldest
		if err := x.note(&events.EffectsDelayed{Destination: to, After: d.after()}); err != nil {
			return err
		}
		x.add(d)
		x.outbox.trim()
	}
	return nil
}

func (x *delays) note(b events.Body) error {
	return x.record(&events.Fact{Body: b, Cause: x.lastCause()}, nil)
}

// takeOut moves the effects for a destination out of the list that holds the watermark.
func (x *delays) takeOut(destination string) *delayed {
	d := &delayed{destination: destination, read: x.outbox.last, readAt: x.stamp(), next: x.outbox.next, notedAt: x.now}
	for _, e := range x.outbox.entries {
		var own, rest []*effect
		for _, y := range e.effects {
			if y.destination() == destination && !y.done {
				own = append(own, y)
			} else {
				rest = append(rest, y)
			}
		}
		if len(own) == 0 {
			continue
		}
		moved := *e
		moved.effects, moved.delayed = own, d
		for _, y := range own {
			x.weigh(y, -y.record.Size())
			y.of = &moved
			x.weigh(y, y.record.Size())
		}
		if e.effects = rest; e.done() {
			x.outbox.settled++
		}
		d.entries = append(d.entries, &moved)
	}
	return d
}

// readOn continues reading for a destination that has room. Destinations take turns.
func (x *delays) readOn() {
	if x.reading != "" {
		return
	}
	turn := 0
	for turn < len(x.list) && x.list[turn].destination <= x.lastRead {
		turn++
	}
	for i := range x.list {
		d := x.list[(turn+i)%len(x.list)]
		//mutant:delayed-work-waits-for-reports
		if d.next >= x.outbox.next || x.filled(d) > 0.5 || d.waits() && !x.outbox.judged {
			continue
		}
		x.reading, x.lastRead, x.readTo = d.destination, d.destination, min(x.outbox.next, d.next+delayedPage)
		if x.readTo == x.outbox.next {
			x.laterTo = x.readTo
		}
		x.say(ReadFacts{x.gen, d.destination, d.next, x.readTo})
		return
	}
}

// replay takes the records that readOn asked for, which end before next.
func (x *delays) replay(records []events.Record, next int64) error {
	d := x.to(x.reading)
	for i := range records {
		r := &records[i]
		if d == nil || r.Offset < d.next || !x.state.Accepted(r.Offset) {
			continue
		}
		f, err := events.DecodeFact(r)
		if err != nil {
			return err
		}
		if err := x.rejoin(d, f, r.Offset); err != nil {
			return err
		}
	}
	rest, to := x.later, x.laterTo
	if next < x.readTo { // there is a gap between these records and the later ones
		to = 0
	}
	x.reading, x.later, x.laterTo = "", nil, 0
	if d == nil {
		return nil
	}
	d.next = max(d.next, next)
	for _, l := range rest {
		if to == 0 || l.offset < d.next {
			continue
		}
		if err := x.rejoin(d, l.fact, l.offset); err != nil {
			return err
		}
	}
	x.outbox.send()
	return nil
}

// rejoin adds the effects that a fact in the log still owes the destination.
func (x *delays) rejoin(d *delayed, f *events.Fact, offset int64) error {
	var list []*effect
	if d.concerns(f) {
		t, err := x.outbox.taskAt(f)
		if err != nil {
			return err
		}
		again := f.Epoch != x.state.Partition.Epoch
		switch {
		case d.replies():
			list = x.replies.reply(t, f)
			again = again && len(list) > 0
		case owes(x.outbox, t, f):
			list = x.outbox.effects(t, f)
		default:
			again = false
		}
		if again {
			x.stats.Resent++
		}
	}
	x.join(d, f, list, offset+1)
	return nil
}

// weigh adds to the byte count of the list that an effect is in.
func (x *delays) weigh(y *effect, bytes int) {
	if d := y.of.delayed; d != nil {
		d.bytes += bytes
	} else {
		x.outbox.bytes += bytes
	}
}

// mayFetch says whether one more input may be fetched.
func (x *delays) mayFetch(y *effect) bool {
	if x.outbox.fetching >= fetchedAtOnce {
		return false
	}
	if d := y.of.delayed; d != nil {
		return d.bytes*delayedShare < x.cfg.UnacknowledgedBytes
	}
	return x.outbox.bytes < x.cfg.UnacknowledgedBytes
}
