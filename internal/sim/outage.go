package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// outage is a topic that stops taking effects and does not recover during the run. Everything that does not go there must come to
// rest.
type outage struct {
	// topic is "" if there is no outage.
	topic string
	from  events.Instant
	how   outageKind
}

// outageKind is what happens to the records. With kind 0, none lands and none is answered.
type outageKind int

const (
	// outageUnacknowledged: records land, but no owner hears of it.
	outageUnacknowledged outageKind = iota + 1
	// outageRefused: each record is refused.
	outageRefused
	outageKinds
)

func drawOutage(dice *rand.Rand, opt *Options) (o outage) {
	if dice.Float64() < opt.Faults.Outage {
		o.topic = []string{"alerts", "dlq.submissions", "dlq.reports", "work.alpha", "work.beta", "work.gamma", "replies/replies.a"}[dice.IntN(7)]
		o.from = begin.Add(time.Duration(dice.Int64N(int64(opt.Chaos))))
		o.how = outageKind(dice.IntN(int(outageKinds)))
	}
	return o
}

// holds says whether effects for a destination may stay unsettled.
func (o *outage) holds(destination string) bool { return o.topic != "" && destination == o.topic }

// sendLost sends an effect to a topic that is out. It returns false if the topic is not.
func (s *slot) sendLost(a supervisor.Send, key string) bool {
	w := s.node.w
	if !w.outage.holds(a.Topic) || w.now < w.outage.from {
		return false
	}
	switch w.outage.how {
	case outageUnacknowledged:
		w.saw(sawUnacknowledged)
		w.after(w.lag(), func() {
			s.part.effects.arrives(key)
			w.arrive(s.part.id, a)
		})
	case outageRefused:
		if w.saw(sawRefusedForGood); a.ID != 0 {
			s.tell(w.lag(), func(o *supervisor.Owner, now events.Instant) { o.Sent(now, a.Generation, a.ID, errRefused) })
		}
	default:
		w.saw(sawOutage)
	}
	return true
}

// mayWait says whether a task may wait for the topic that is out: one of its steps, or its undo, is the work of that agent. (A
// refused request fails at once, and the failure is judged.)
func (o *outage) mayWait(t *events.Task) bool {
	agent, work := strings.CutPrefix(o.topic, "work.")
	d := definitionOf(t.Definition)
	if !work || d == nil || o.how == outageRefused {
		return false
	}
	for i := range d.Steps {
		if s := &d.Steps[i]; s.Agent == agent || s.Undo != nil && s.Undo.Agent == agent {
			return true
		}
	}
	return false
}

// unsettled returns the remaining effects that no outage explains. An effect that an outage explains must not hold back the
// watermark.
func (p *partition) unsettled() string {
	i := slices.IndexFunc(p.effects.owed, func(d debt) bool {
		_, delayed := p.state.Partition.Delayed[d.to]
		return !p.w.outage.holds(d.to) || !delayed
	})
	if i < 0 {
		return ""
	}
	return p.effects.owed[i].key
}
