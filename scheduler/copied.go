package scheduler

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

const typeClosed = events.TypePrefix + string(events.NameNamespaceClosed)

// CopyingOf returns the record with which a copy of a namespace begins, nil if this namespace is no copy. Until the catalog has a Namespace, that copy
// is not complete.
func CopyingOf(c *Catalog) *events.Copying { return c.now.Load().copying }

// ClosedOf returns the record that closed the namespace, because it was copied; nil if it is open.
func ClosedOf(c *Catalog) *events.NamespaceClosed { return c.now.Load().closed }

func applyCopying(c *Catalog, data []byte) error {
	x := new(events.Copying)
	if err := json.Unmarshal(data, x); err != nil {
		return fmt.Errorf("read %s: %w", events.TypeCopying, err)
	}
	s := *c.now.Load()
	s.copying = x
	c.now.Store(&s)
	return nil
}

func applyClosed(c *Catalog, data []byte) error {
	x := new(events.NamespaceClosed)
	if err := json.Unmarshal(data, x); err != nil {
		return fmt.Errorf("read %s: %w", typeClosed, err)
	}
	s := *c.now.Load()
	if s.closed = x; x.Over {
		s.closed = nil
	}
	c.now.Store(&s)
	return nil
}

// EncodeClosed returns the record that closes a namespace, or reopens it, for <ns>.definitions.
func EncodeClosed(x events.NamespaceClosed, s events.Subject) (events.Record, error) {
	b, err := events.Marshal(x)
	return events.Record{Key: []byte("namespace"), Value: b, Headers: headers(s, typeClosed, "")}, err
}

// EncodeCopying returns the first record of the definitions of a copy.
func EncodeCopying(x events.Copying, s events.Subject) (events.Record, error) {
	b, err := events.Marshal(x)
	return events.Record{Key: []byte("namespace"), Value: b, Headers: headers(s, events.TypeCopying, "")}, err
}

// EncodeOmitted returns a record that keeps the place of one which is not copied, so that all others have the offsets that they had.
func EncodeOmitted(s events.Subject) events.Record {
	return events.Record{Key: []byte("omitted"), Value: []byte("{}"), Headers: headers(s, events.TypeOmitted, "")}
}

// Omits says whether a copy of a namespace leaves out a record of the definitions: it is about topics, partitions or dead letters of this namespace, or about
// jobs that have ended. A node of the copy writes again that there are keys, if there are. The progress of a job is by partition, so one that has not ended begins again.
func Omits(c *Catalog, r *events.Record) bool {
	if r.Control {
		return true
	}
	e, data, err := events.Open(r)
	if err != nil || r.Value == nil {
		return err != nil
	}
	switch e.Type {
	case typeNamespace, typeClosed, events.TypeCopying, events.TypeOmitted, events.TypeKeysMade, events.TypeLoss, events.TypeDeadLetterMark, events.TypeJobProgress, events.TypeJobStop:
		return true
	case events.TypeJob:
		var j events.Job
		if json.Unmarshal(data, &j) != nil {
			return true
		}
		x, known := c.Jobs()[j.ID]
		return !known || x.EndedAt != 0 || x.Stop != nil
	}
	return false
}
