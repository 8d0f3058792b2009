package scheduler

import "github.com/sagalog/sagalog/events"

// The definitions say that the namespace has had a data key. Without that, a topic of keys that was lost would look like one in which no key was ever
// made: other keys would be made, and what the lost ones sealed would count as damaged.

// KeysMade says whether the namespace has had a data key.
func (c *Catalog) KeysMade() bool { return c.now.Load().keysMade }

func (c *Catalog) applyKeysMade() {
	s := *c.now.Load()
	s.keysMade = true
	c.now.Store(&s)
}

// EncodeKeysMade returns the record that says so, for <ns>.definitions.
func EncodeKeysMade(s events.Subject) events.Record {
	return events.Record{Key: []byte("keys"), Value: []byte("{}"), Headers: headers(s, events.TypeKeysMade, "")}
}
