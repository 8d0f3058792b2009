package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/sagalog/sagalog/events"
)

// InputFault is something wrong in a task's input, and its place.
type InputFault struct {
	// Pointer is the JSON pointer of the value; empty for the whole input.
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

const (
	// maxInputFaults is more than a person reads at once. A validation keeps no more errors in memory.
	maxInputFaults = 50
	// maxFaultBytes limits the length of messages that repeat a value.
	maxFaultBytes = 200
)

// ValidateInput checks a task's input against the schema of the definition and reports its faults. An absent input is null. It
// never panics.
func (p *Program) ValidateInput(raw json.RawMessage) []InputFault { return validateBy(p.schema, raw) }

// validateBy checks a value against a schema, or that it is JSON if there is no schema.
func validateBy(schema *inputSchema, raw json.RawMessage) (out []InputFault) {
	defer func() {
		if r := recover(); r != nil {
			out = []InputFault{{Message: events.Clip(fmt.Sprintf("cannot be validated: %v", r), maxFaultBytes)}}
		}
	}()
	if len(raw) == 0 {
		raw = json.RawMessage("null")
	}
	if schema == nil {
		if !json.Valid(raw) {
			return []InputFault{{Message: "is not JSON"}}
		}
		return nil
	}
	if err := events.CheckNumbers("", raw); err != nil {
		return []InputFault{wideNumber(err)}
	}
	v, err := events.DecodeValue(raw)
	if err != nil {
		return []InputFault{{Message: events.Clip("is not JSON: "+oneLine(err.Error()), maxFaultBytes)}}
	}
	err = schema.validate(v, len(raw))
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []InputFault{{Message: events.Clip(oneLine(err.Error()), maxFaultBytes)}}
	}
	for _, leaf := range leaves(invalid, nil) {
		out = append(out, InputFault{Pointer: pointerOf(leaf.InstanceLocation), Message: clipped(inputFault(leaf.ErrorKind))})
	}
	return out
}

func wideNumber(err error) InputFault {
	var m *events.MemberError
	if errors.As(err, &m) {
		return InputFault{Pointer: m.Pointer, Message: m.Message}
	}
	return InputFault{Message: err.Error()}
}

// leaves collects the errors without a further cause, except those that were not kept.
func leaves(e *jsonschema.ValidationError, out []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	if e == notKept {
		return out
	}
	if len(e.Causes) == 0 {
		return append(out, e)
	}
	for _, c := range e.Causes {
		out = leaves(c, out)
	}
	return out
}

// describe returns what is wrong with a definition's schema.
func describe(e *jsonschema.ValidationError) string { return clipped(text(e.ErrorKind)) }

// inputFault returns what is wrong with an input. It does not quote texts of the input, which may be secret: a fault goes into
// answers to clients, facts and logs.
func inputFault(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Pattern:
		return fmt.Sprintf("does not match pattern '%s'", k.Want)
	case *kind.Format:
		return "is not a valid " + k.Want
	}
	return text(k)
}

func text(k jsonschema.ErrorKind) string {
	switch k := k.(type) { // the library says "got -1, want 0" of all four
	case *kind.Minimum:
		return bound(k.Got, "at least", k.Want)
	case *kind.Maximum:
		return bound(k.Got, "at most", k.Want)
	case *kind.ExclusiveMinimum:
		return bound(k.Got, "more than", k.Want)
	case *kind.ExclusiveMaximum:
		return bound(k.Got, "less than", k.Want)
	}
	return short(k).LocalizedString(message.NewPrinter(language.English))
}

// bound says between which numbers a number must be.
func bound(got *big.Rat, side string, want *big.Rat) string {
	is, _ := got.Float64()
	most, _ := want.Float64()
	return fmt.Sprintf("is %v, and must be %s %v", is, side, most)
}

func clipped(s string) string { return events.Clip(oneLine(s), maxFaultBytes) }

// short returns an error with no more names or values than the message has room for: the library joins them in quadratic time.
func short(k jsonschema.ErrorKind) jsonschema.ErrorKind {
	switch k := k.(type) {
	case *kind.Required:
		return &kind.Required{Missing: few(k.Missing)}
	case *kind.DependentRequired:
		return &kind.DependentRequired{Prop: k.Prop, Missing: few(k.Missing)}
	case *kind.Dependency:
		return &kind.Dependency{Prop: k.Prop, Missing: few(k.Missing)}
	case *kind.AdditionalProperties:
		return &kind.AdditionalProperties{Properties: few(k.Properties)}
	case *kind.Enum:
		return &kind.Enum{Got: k.Got, Want: few(k.Want)}
	}
	return k
}

func few[T any](list []T) []T { return list[:min(len(list), maxFaultBytes)] }

func pointerOf(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(t))
	}
	return b.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
