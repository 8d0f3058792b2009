package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/sagalog/sagalog/events"
)

// Ticket names an attempt.
type Ticket struct {
	Task      string           `json:"t"`
	Run       int              `json:"r"`
	Step      string           `json:"s"`
	Operation events.Operation `json:"o"`
	Attempt   int              `json:"a"`
	// Incarnation is the ticket of the work request.
	Incarnation string `json:"i"`
	// StartedAt is when the agent made the call.
	StartedAt events.Instant `json:"b"`
	// Again says that another call for the attempt may have been made, which may still be carried out when this one is over.
	Again bool `json:"d,omitempty"`
}

const (
	// MaxTicket bounds the text of a ticket: names of the largest sizes, all of whose characters JSON escapes, take less.
	MaxTicket = 6 << 10
	// LeastSecret is the length of the shortest secret: 128 random bits in hexadecimal digits.
	LeastSecret = 32
	// mostSecrets bounds the secrets of a namespace. Two are needed to replace one.
	mostSecrets = 8
	// purpose separates these keys from others that are derived from the same secret, and names the form of the ticket.
	purpose = "sagalog callback 1"
)

// encoding accepts each ticket in one form only, apart from line breaks, which every base64 decoder skips.
var encoding = base64.RawURLEncoding.Strict()

// Key returns the idempotency key of the attempt's operation, which is built from the ID of the namespace.
func (t *Ticket) Key(namespace uuid.UUID) string {
	w := events.Work{Task: t.Task, Ticket: t.Incarnation, Run: t.Run, Step: t.Step}
	return w.Key(namespace, t.Operation)
}

// Keys make and check tickets. They are safe for concurrent use.
type Keys struct{ all [][]byte }

// NewKeys derives the keys from the text of a secret. It may have several lines, each a secret: the first one signs, and all of them are
// accepted, so that a secret can be replaced while attempts run.
func NewKeys(secrets string) (*Keys, error) {
	k := new(Keys)
	for i, line := range strings.Split(strings.TrimSpace(secrets), "\n") {
		secret := strings.TrimSpace(line)
		switch {
		case secret == "" && i == 0:
			return nil, errors.New("the key of callbacks is empty")
		case len(secret) < LeastSecret:
			return nil, fmt.Errorf("line %d of the key of callbacks has %d characters: use at least %d random ones, such as those of `openssl rand -hex 32`",
				i+1, len(secret), LeastSecret)
		case i == mostSecrets:
			return nil, fmt.Errorf("the key of callbacks has more than %d lines", mostSecrets)
		}
		k.all = append(k.all, sum([]byte(secret), []byte(purpose)))
	}
	return k, nil
}

// Sign returns the text of a ticket. It consists of letters, digits, - and _. key is the idempotency key of the attempt, from its work request: it binds
// the ticket to the namespace.
func (k *Keys) Sign(t Ticket, key string) (string, error) {
	payload, err := events.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("encode the ticket of a callback: %w", err)
	}
	text := encoding.EncodeToString(append(sum(k.all[0], payload, []byte(key)), payload...))
	if len(text) > MaxTicket {
		return "", fmt.Errorf("the names of task and step are too long for a callback: its ticket would have %d characters, and %d are allowed", len(text), MaxTicket)
	}
	return text, nil
}

// Open returns the ticket of a text, and false if no key has signed it for the namespace with that ID.
func (k *Keys) Open(namespace, text string) (Ticket, bool) {
	if len(text) > MaxTicket || strings.ContainsAny(text, "\r\n") {
		return Ticket{}, false
	}
	b, err := encoding.DecodeString(text)
	if err != nil || len(b) <= sha256.Size {
		return Ticket{}, false
	}
	payload, signed := b[sha256.Size:], false
	id, err := uuid.Parse(namespace)
	var t Ticket
	if err != nil || json.Unmarshal(payload, &t) != nil {
		return Ticket{}, false
	}
	attempt := []byte(t.Key(id))
	for _, key := range k.all {
		signed = hmac.Equal(b[:sha256.Size], sum(key, payload, attempt)) || signed
	}
	if !signed {
		return Ticket{}, false
	}
	return t, true
}

// sum is an HMAC over parts, of which only the first one has no fixed length.
func sum(key []byte, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}
