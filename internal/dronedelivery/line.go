package dronedelivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Line is one call in a ledger. The first seven members are promised to other programs, in this order.
type Line struct {
	Time           string          `json:"time"`
	Method         string          `json:"method"`
	Path           string          `json:"path"`
	IdempotencyKey string          `json:"idempotency_key"`
	Attempt        int             `json:"attempt"`
	Status         int             `json:"status"`
	Applied        bool            `json:"applied"`
	Task           string          `json:"task"`
	Run            int             `json:"run"`
	Fault          Mode            `json:"fault,omitempty"`
	Tombstone      bool            `json:"tombstone,omitempty"`
	Answer         json.RawMessage `json:"answer,omitempty"`
}

// encode returns the line with its newline, user data unescaped.
func (l Line) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(l); err != nil {
		return nil, fmt.Errorf("encode ledger line: %w", err)
	}
	return b.Bytes(), nil
}

// stamp is an instant as every file and answer here shows it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
