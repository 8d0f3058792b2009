package events

// NamespaceClosed says that the partition was copied into another namespace: nobody decides anything in it any more, so that no task goes on in
// both. With Over it says that the copy was given up, and the partition goes on.
type NamespaceClosed struct {
	// To says in words which namespace it was copied to.
	To   string `json:"to,omitempty"`
	Over bool   `json:"over,omitzero"`
}

// Closed is what a partition knows of the copy for which it was closed.
type Closed struct {
	To string  `json:"to"`
	At Instant `json:"at"`
}

// foldClosed takes a NamespaceClosed. A copy that is begun again closes the partition again.
func foldClosed(p *PartitionState, f *Fact, b *NamespaceClosed) {
	if p.Closed = nil; !b.Over {
		p.Closed = &Closed{To: b.To, At: max(f.Time, p.Time)}
	}
}

// Copying is the value of the first record of the definitions of a copy, with the type TypeCopying. NamespaceCreated follows at the offset Created,
// once the copy is complete.
type Copying struct {
	// From says in words what is copied.
	From    string `json:"from"`
	Created int64  `json:"created"`
}
