package events

import (
	"encoding/json"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// CheckNumbers refuses a JSON value with a number of more than 400 digits, or with an exponent beyond 400. at is the pointer of the
// value. The error is a *MemberError with the place of the first such number. Checking an input against a schema uses exact
// fractions, which takes time in proportion to the exponent and not to the length of the text.
func CheckNumbers(at string, raw json.RawMessage) error {
	path, number, found := jsontext.Wide(raw)
	if !found {
		return nil
	}
	for _, name := range path {
		if len(at) > maxPointerBytes {
			at += "/..."
			break
		}
		at = pointerTo(at, name)
	}
	return memberError(at, "the number %s is out of range: a number has up to %d digits and an exponent from -%d to %d; send it as a text",
		Clip(number, maxNumberBytes), jsontext.MaxDigits, jsontext.MaxExponent, jsontext.MaxExponent)
}

// maxNumberBytes is how much of a refused number a message repeats, and maxPointerBytes how much of its place.
const maxNumberBytes, maxPointerBytes = 40, 256
