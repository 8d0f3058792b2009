package supervisor

import "github.com/sagalog/sagalog/events"

// Offer is what the live instances of an agent offer to a partition, according to their heartbeats. The zero value is
// that of an agent without instances.
type Offer struct {
	// Window is how many attempts may run at once in the partition. Less than 1 counts as 1, so that every partition
	// makes progress.
	Window int
	// Do and Undo say whether at least one instance offers the operation. An attempt of an operation that nobody offers
	// waits: sent to nobody, it would only time out and use up what its policy allows.
	Do, Undo bool
	// Targets are the instances that take work, in the order of their names. They are empty unless all instances say
	// which partitions they read; then the home partition is used.
	Targets []Target
}

func (o Offer) has(op events.Operation) bool {
	if op == events.Undo {
		return o.Undo
	}
	return o.Do
}
