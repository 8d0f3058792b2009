package scheduler

import (
	"encoding/json"

	"github.com/sagalog/sagalog/events"
)

// EncodeMark returns the record of the mark of a dead letter, for <ns>.definitions.
func EncodeMark(m *events.DeadLetterMark, s events.Subject) (events.Record, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return events.Record{}, err
	}
	return events.Record{Key: []byte(m.Key()), Value: b, Headers: headers(s, events.TypeDeadLetterMark, "")}, nil
}
