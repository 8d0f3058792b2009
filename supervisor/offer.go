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
	// Paused says that an operator paused the agent: nothing starts, whatever the instances offer.
	Paused bool
	// Targets are the instances that publish which partitions they read, in the order of their names. If any instance that
	// accepts work does not, Targets is empty and the home partition is used.
	Targets []Target
}

func (o Offer) has(op events.Operation) bool {
	if op == events.Undo {
		return o.Undo
	}
	return o.Do
}
