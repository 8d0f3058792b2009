package scheduler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/sagalog/sagalog/internal/rawjson"
)

// InputFault is what is wrong with a task's input, and where.
type InputFault struct {
	// Pointer is the JSON pointer of the value; empty for the whole input.
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

const (
	// maxInputFaults is more than anybody reads at once.
	maxInputFaults = 50
	// maxFaultBytes cuts the messages that repeat a value.
	maxFaultBytes = 200
)

// ValidateInput checks a task's input by the schema of the definition and reports every fault. An absent input is
// null. It never panics.
func (p *Program) ValidateInput(raw json.RawMessage) (out []InputFault) {
	defer func() {
		if r := recover(); r != nil {
			out = []InputFault{{Message: cut(fmt.Sprintf("cannot be validated: %v", r))}}
		}
	}()
	if len(raw) == 0 {
		raw = json.RawMessage("null")
	}
	if p.schema == nil {
		if !rawjson.Valid(raw) && !json.Valid(raw) {
			return []InputFault{{Message: "is not JSON"}}
		}
		return nil
	}
	if p.schema.quick.accepts(raw) {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return []InputFault{{Message: cut("is not JSON: " + oneLine(err.Error()))}}
	}
	err = p.schema.validate(v, len(raw))
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []InputFault{{Message: cut(oneLine(err.Error()))}}
	}
	for _, leaf := range leaves(invalid, nil) {
		out = append(out, InputFault{Pointer: pointerOf(leaf.InstanceLocation), Message: describe(leaf)})
		if len(out) == maxInputFaults {
			break
		}
	}
	return out
}

// leaves collects the errors that have no cause of their own.
func leaves(e *jsonschema.ValidationError, out []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return append(out, e)
	}
	for _, c := range e.Causes {
		out = leaves(c, out)
	}
	return out
}

func describe(e *jsonschema.ValidationError) string {
	return cut(oneLine(e.ErrorKind.LocalizedString(message.NewPrinter(language.English))))
}

func pointerOf(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(t))
	}
	return b.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func cut(s string) string {
	if len(s) <= maxFaultBytes {
		return s
	}
	at := maxFaultBytes
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return s[:at] + "..."
}
