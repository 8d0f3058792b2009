package dronedelivery

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	Undoes         string          `json:"undoes,omitempty"`
	Fault          Mode            `json:"fault,omitempty"`
	Tombstone      bool            `json:"tombstone,omitempty"`
	Unkind         bool            `json:"unkind,omitempty"`
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

// ReadLines calls take with each complete line of a ledger and its length in bytes. It returns how many bytes follow the last
// one: the beginning of a line that is still being written, or that was torn by a crash.
func ReadLines(r io.Reader, take func(l Line, size int) error) (torn int, err error) {
	b := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		text, err := b.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return len(text), nil
		}
		if err != nil {
			return 0, err
		}
		var l Line
		if err := json.Unmarshal(text, &l); err != nil {
			return 0, fmt.Errorf("line %d is damaged: %w", n, err)
		}
		if err := take(l, len(text)); err != nil {
			return 0, fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// stamp is an instant in the format of all files and answers here.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
