package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// PerInput holds a value for each input, in the order of Inputs.
type PerInput[T any] [2]T

// Inputs returns the inputs that a partition reads.
func Inputs() (names PerInput[events.Input]) {
	for i := range inputKinds {
		names[i] = inputKinds[i].name
	}
	return names
}

// Judged counts inputs by what became of them. A duplicate is one that led to no fact.
type Judged struct{ Accepted, Duplicate, Forwarded, Held, Rejected uint64 }

// count counts an input that led to these facts.
func (j *Judged) count(facts []*events.Fact) {
	if len(facts) == 0 {
		j.Duplicate++
		return
	}
	switch facts[0].Body.(type) {
	case *events.InputForwarded:
		j.Forwarded++
	case *events.RequestHeld:
		j.Held++
	case *events.InputRejected:
		j.Rejected++
	default:
		j.Accepted++
	}
}

// positions returns how far each input is judged.
func positions(i *inbox) (at PerInput[int64]) {
	for _, q := range i.queues {
		at[q.kind] = q.judged
	}
	return at
}

// EffectClass is the effects of one class that no broker has acknowledged.
type EffectClass struct {
	// Kind is the kind of an effect of a fact: see events.EffectWork and the others.
	Kind    string
	Records int
	Bytes   int
	// Since is when the oldest of their facts was decided.
	Since events.Instant
}

// measured is what measure found last.
type measured struct {
	classes []EffectClass
	at      events.Instant
}

// measure returns the effects without an answer by class, as of the last second: an owner reports after each batch, and finding them looks at
// all of them.
func measure(x *outbox) []EffectClass {
	if x.now.Sub(x.measured.at) < time.Second {
		return x.classes
	}
	x.classes, x.measured.at = nil, x.now
	for e := range x.all {
		for _, y := range e.effects {
			if !y.done {
				x.classes = addEffect(x.classes, y)
			}
		}
	}
	return x.classes
}

func addEffect(list []EffectClass, y *effect) []EffectClass {
	i := 0
	for i < len(list) && list[i].Kind != y.kind {
		i++
	}
	if i == len(list) {
		list = append(list, EffectClass{Kind: y.kind, Since: y.of.fact.Time})
	}
	c := &list[i]
	c.Records++
	c.Bytes += y.record.Size()
	c.Since = min(c.Since, y.of.fact.Time)
	return list
}
