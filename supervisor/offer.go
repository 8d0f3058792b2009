package supervisor

import "github.com/sagalog/sagalog/events"

// Offer is what the live instances of an agent offer to a partition, according to their heartbeats. The zero value stands
// for an agent without instances.
type Offer struct {
	// Window is how many attempts may run at once in the partition. Less than 1 counts as 1, so that every partition
	// makes progress.
	Window int
	// Do and Undo say whether at least one instance offers the operation. Attempts of an operation that no instance
	// offers wait: if they were sent, they would only time out and use up the attempts that their policy allows.
	Do, Undo bool
	// Functions says the same of the operations that have a name.
	Functions map[string]Directions
	// Paused says that an operator paused the agent: nothing starts, whatever the instances offer.
	Paused bool
	// Targets are the instances that publish which partitions they read, in the order of their names. If any instance that
	// accepts work does not, Targets is empty and the home partition is used.
	Targets []Target
}

// Directions says whether an operation of an agent is offered for doing steps, and for undoing them.
type Directions struct{ Do, Undo bool }

func (d Directions) has(op events.Operation) bool {
	return op == events.Undo && d.Undo || op == events.Do && d.Do
}

// Has says whether the agent, which is that of the call, offers what the call asks.
func (o Offer) Has(c events.Call) bool {
	if c.Function != "" {
		return o.Functions[c.Function].has(c.Operation)
	}
	return Directions{o.Do, o.Undo}.has(c.Operation)
}

// Or returns what either of two instances offers.
func (d Directions) Or(o Directions) Directions { return Directions{d.Do || o.Do, d.Undo || o.Undo} }
