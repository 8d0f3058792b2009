package events

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"
)

// Sealed is a value that only holders of its key can read. On the wire it takes the place of the value, as the JSON object
// {"$sealed":"KEY.SAME.TEXT"} without spaces. Facts, the fold and the state hash know nothing of it: for them it is a value like any other.
type Sealed struct {
	// Key is the ID of the data key.
	Key string
	// Same is set in the input of a submission: it is equal in two submissions of one task ID if what they seal is equal, and tells nothing
	// else to those without the key.
	Same string
	// Text is what the key opens.
	Text []byte
}

const (
	// sealedOpening begins a sealed value. Within a JSON text its quotes are escaped, so in compact JSON these bytes always begin an object.
	sealedOpening = `{"$sealed":"`
	sealedEnd     = `"}`
)

// sealedText is the form of the text within a sealed value. Each text has one form.
var sealedText = base64.RawURLEncoding.Strict()

// HasSealed says whether a value in compact JSON is sealed, or has a sealed value in it.
func HasSealed(value []byte) bool { return bytes.Contains(value, []byte(sealedOpening)) }

// IsSealed says whether a value in compact JSON is sealed as a whole.
func IsSealed(value []byte) bool {
	if !bytes.HasPrefix(value, []byte(sealedOpening)) {
		return false
	}
	_, to := FindSealed(value)
	return to == len(value)
}

// FindSealed returns where the first sealed value begins and ends. Both are -1 if the text has no sealed value, and only to if the text ends within it.
func FindSealed(text []byte) (from, to int) {
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(sealedOpening))
		if i < 0 {
			return -1, -1
		}
		from = at + i
		at = from + len(sealedOpening)
		for to = at; to < len(text) && isSealedByte(text[to]); to++ {
		}
		switch rest := text[to:]; {
		case bytes.HasPrefix(rest, []byte(sealedEnd)):
			return from, to + len(sealedEnd)
		case len(rest) < len(sealedEnd) && bytes.HasPrefix([]byte(sealedEnd), rest):
			return from, -1
		}
	}
}

func isSealedByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

// BeginsSealed returns how many bytes at the end of a text may be the beginning of a sealed value.
func BeginsSealed(text []byte) int {
	for n := min(len(sealedOpening)-1, len(text)); n > 0; n-- {
		if bytes.HasPrefix([]byte(sealedOpening), text[len(text)-n:]) {
			return n
		}
	}
	return 0
}

// ParseSealed reads a sealed value, and returns false if it is not one.
func ParseSealed(value []byte) (s Sealed, ok bool) {
	if !IsSealed(value) {
		return s, false
	}
	parts := bytes.Split(value[len(sealedOpening):len(value)-len(sealedEnd)], []byte("."))
	if len(parts) != 3 {
		return s, false
	}
	text, err := sealedText.AppendDecode(nil, parts[2])
	return Sealed{string(parts[0]), string(parts[1]), text}, err == nil && len(parts[0]) > 0
}

// Value returns the sealed value as JSON.
func (s *Sealed) Value() json.RawMessage {
	value := slices.Concat([]byte(sealedOpening), []byte(s.Key), []byte("."), []byte(s.Same), []byte("."))
	return append(sealedText.AppendEncode(value, s.Text), sealedEnd...)
}

// comparableInput returns the value that stands for an input in the content hash. Sealing gives other bytes each time, so of a sealed input only
// Same counts.
func comparableInput(input json.RawMessage) json.RawMessage {
	s, ok := ParseSealed(input)
	if !ok || s.Same == "" {
		return input
	}
	return (&Sealed{Same: s.Same}).Value()
}

// ErasedError says that the key of a sealed value was erased.
type ErasedError struct{ At Instant }

// Error says when.
func (e *ErasedError) Error() string { return "the content was erased on " + e.date() }

func (e *ErasedError) date() string { return e.At.Time().UTC().Format(time.DateOnly) }

// Value returns what takes the place of the value where somebody shows it: {"$erased":"2026-11-28"}.
func (e *ErasedError) Value() json.RawMessage {
	return json.RawMessage(`{"$erased":"` + e.date() + `"}`)
}

// NoKeyError says that a sealed value cannot be opened here now, but perhaps elsewhere or later. Nothing final may be decided because of it.
type NoKeyError struct {
	// Missing is the fingerprint of the key that the key file of this process lacks, or the data key that the topic of keys has lost; "" if the data
	// keys cannot be read now.
	Missing string
	// Reason says what is missing.
	Reason string
}

// Error says why.
func (e *NoKeyError) Error() string {
	return "the content is sealed, and this process cannot open it now: " + e.Reason
}
