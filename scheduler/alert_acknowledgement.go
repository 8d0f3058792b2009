package scheduler

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/sagalog/sagalog/events"
)

// MaxAcknowledged bounds the acknowledged alerts that a namespace remembers. For one more, all readers forget the oldest, and its alert is listed as
// not acknowledged. That is better than refusing the newest.
const MaxAcknowledged = 1_000

// AcknowledgedRecord is the record that acknowledged an alert.
type AcknowledgedRecord struct {
	events.AlertAcknowledgement
	Offset int64
	// At is when it was written.
	At events.Instant
}

// Acknowledged returns the acknowledgements that count, by the ID of the alert. The map is read-only.
func (c *Catalog) Acknowledged() map[string]AcknowledgedRecord { return c.now.Load().acknowledged }

func (c *Catalog) applyAcknowledgement(offset int64, e events.Envelope, data []byte) error {
	r := AcknowledgedRecord{Offset: offset}
	if err := json.Unmarshal(data, &r.AlertAcknowledgement); err != nil {
		return fmt.Errorf("read %s: %w", events.TypeAlertAcknowledgement, err)
	}
	if r.Alert == "" {
		return fmt.Errorf("read %s: the member alert is missing", events.TypeAlertAcknowledgement)
	}
	var err error
	if r.At, err = appliedAt(e.Time); err != nil {
		return err
	}
	s := *c.now.Load()
	if s.acknowledged = maps.Clone(s.acknowledged); s.acknowledged == nil {
		s.acknowledged = map[string]AcknowledgedRecord{}
	}
	delete(s.acknowledged, r.Alert)
	if !r.Over {
		if len(s.acknowledged) >= MaxAcknowledged {
			delete(s.acknowledged, oldest(s.acknowledged))
		}
		s.acknowledged[r.Alert] = r
	}
	c.now.Store(&s)
	return nil
}

// oldest returns the alert whose acknowledgement was written first.
func oldest(all map[string]AcknowledgedRecord) (alert string) {
	for id, r := range all {
		if alert == "" || r.Offset < all[alert].Offset {
			alert = id
		}
	}
	return alert
}

// EncodeAcknowledgement returns the record of an acknowledgement, for <ns>.definitions.
func EncodeAcknowledgement(a *events.AlertAcknowledgement, s events.Subject) (events.Record, error) {
	b, err := json.Marshal(a)
	if err != nil {
		return events.Record{}, err
	}
	return events.Record{Key: []byte(a.Key()), Value: b, Headers: headers(s, events.TypeAlertAcknowledgement, "")}, nil
}
