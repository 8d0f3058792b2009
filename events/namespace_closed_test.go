package events_test

import "github.com/sagalog/sagalog/events"

// closed: the namespace is copied, and the copy is given up.
func (w *scribe) closed() {
	w.write("", &events.NamespaceClosed{To: "sagalog on new:9092"})
	w.hash1()
	w.write("", &events.NamespaceClosed{Over: true})
	w.hash1()
}
